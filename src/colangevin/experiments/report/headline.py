"""What an experiment came to, in two lines for a terminal."""

from colangevin.experiments.catalogue.measures import MEASURES
from colangevin.experiments.judging.summaries import summary
from colangevin.experiments.report.results import Result

__all__ = ["headline"]


def headline(result: Result) -> str:
    """What an experiment came to: the first claim's method beside its first and its best baseline.

    Args:
        result: of the experiment.

    Returns:
        A line with title and part, and one with what is measured, the numbers, and how much they rest on.
    """
    experiment, subject = result.experiment, result.subject
    each, measure = result.parts[subject.part], subject.measure
    unit = f" {MEASURES[measure].unit}" if MEASURES[measure].unit else ""
    best = [each.methods.index(name) for name in each.methods if name in _best_baselines(result)]
    numbers = "; ".join(
        f"{summary(measure, each.values, place)}{unit} with {each.methods[place]}"
        for place in dict.fromkeys((subject.method, subject.baseline, *best))
    )
    where = "" if each.part.name in experiment.title else f", {each.part.name}"
    runs = f"{experiment.runs} run{'s' * (experiment.runs > 1)}"
    return f"{experiment.title}{where}\n    {measure}: {numbers} ({runs}, {experiment.epochs:,} epochs)"


def _best_baselines(result: Result) -> list[str]:
    """The baseline that the first claim was held against, where there is a finding."""
    return [finding.baseline for finding in result.findings[:1]]
