"""What a report found, in a few rows: of every group of experiments the first claim of each verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from colangevin.experiments.catalogue.measures import MEASURES
from colangevin.experiments.judging.summaries import summary
from colangevin.experiments.judging.verdicts import FEWEST_RUNS, Finding, Verdict
from colangevin.experiments.report.results import Result
from colangevin.experiments.report.settings import listed

__all__ = ["Row", "headline", "in_short"]


@dataclass(frozen=True)
class Row:
    """A claim and what became of it.

    Attributes:
        group: title of the group of experiments it stands for.
        experiment: name of its own experiment.
        title: of its own experiment.
        verdict: in all settings named.
        claim: the claim's own sentence.
        settings: where the verdict is this; empty for a claim about no setting in particular.
        numbers: of the method and its baseline.
        why: the reason of a verdict that is none; empty otherwise.
    """

    group: str
    experiment: str
    title: str
    verdict: Verdict
    claim: str
    settings: str
    numbers: str
    why: str


def in_short(results: Sequence[Result]) -> list[Row]:
    """The first claim that holds, the first that does not and the first that is undecided, group by group.

    Experiments whose names begin alike, as ``two-turn`` and ``two-turn-radius``, are one group. What is first
    is decided by the order of the catalogue, not by the numbers.

    Args:
        results: of experiments, in the order of the catalogue.

    Returns:
        At most three rows a group. A claim that is made about several settings is one row for those in which
        it came to the same verdict.
    """
    rows: list[Row] = []
    for group in _groups(results):
        for verdict in ("holds", "does not hold", "undecided"):
            found = next((mine for result in group if (mine := _first(result, verdict))), None)
            if found:
                rows.append(_row(group[0].experiment.title, *found))
    return rows


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


def _groups(results: Sequence[Result]) -> Iterator[list[Result]]:
    group: list[Result] = []
    for result in results:
        if group and not result.experiment.name.startswith(f"{group[0].experiment.name}-"):
            yield group
            group = []
        group.append(result)
    if group:
        yield group


def _first(result: Result, verdict: str) -> tuple[Result, list[Finding]] | None:
    """The first finding with a verdict, and those of the same claim in other settings that share it."""
    mine = [finding for finding in result.findings if finding.verdict == verdict]
    alike = [finding for finding in mine if _sentence(finding) == _sentence(mine[0])]
    return (result, alike) if alike else None


def _sentence(finding: Finding) -> str:
    """The claim's sentence without the setting, which is named apart."""
    claim = finding.claim
    return claim.text.replace(f", {claim.part}", "") if claim.part else claim.text


def _row(group: str, result: Result, findings: list[Finding]) -> Row:
    first = findings[0]
    experiment = result.experiment
    settings = [each.claim.part for each in findings if each.claim.part]
    alike = sum(_sentence(each) == _sentence(first) for each in result.findings)
    few = all(each.runs < FEWEST_RUNS for each in findings)
    return Row(
        group,
        experiment.name,
        experiment.title,
        first.verdict,
        _sentence(first),
        listed(settings, alike) if settings else "",
        _numbers(findings),
        f"fewer than {FEWEST_RUNS} runs" if first.verdict == "undecided" and few else "",
    )


def _numbers(findings: list[Finding]) -> str:
    """The measure, the method's means beside the baseline's, and how many runs there are."""
    claim = findings[0].claim
    ours = _range(claim.measure, [each.method_mean for each in findings])
    theirs = _range(claim.measure, [each.baseline_mean for each in findings])
    baselines = " or ".join(dict.fromkeys(each.baseline for each in findings))
    most = max(each.runs for each in findings)
    runs = f"{most} run{'s' * (most > 1)}"
    return f"{claim.measure} {ours} ({claim.method}) against {theirs} ({baselines}), {runs}"


def _range(name: str, values: list[float]) -> str:
    measure = MEASURES[name]
    ends = dict.fromkeys(measure.format(value) for value in (min(values), max(values)))
    return " to ".join(ends) + (f" {measure.unit}" if measure.unit else "")
