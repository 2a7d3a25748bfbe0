"""Chains of a posterior: their predictions together beside HMC's, and whether they agree with each other."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from colangevin.experiments.catalogue.problems import PosteriorProblem
from colangevin.experiments.judging.chains import TRACES, Distance, distance, r_hat
from colangevin.experiments.judging.probabilities import unpack
from colangevin.experiments.judging.summaries import over_runs, summary
from colangevin.experiments.report.drawing import legend, line, logarithmic, point
from colangevin.experiments.report.gathering import PartResult
from colangevin.experiments.report.tables import Table

__all__ = ["Captioned", "over_gradients", "posterior_tables", "together"]

_HEAD = ("agreement, %", "total variation", "accuracy, %", "NLL", "calibration error")
_MEASURES = ("agreement", "total variation", "test accuracy", "test loss", "calibration error")
_DIGITS = (2, 4, 2, 4, 4)


class Captioned(NamedTuple):
    """A table with what to see in it."""

    caption: str
    table: Table


def posterior_tables(each: PartResult) -> list[Captioned]:
    """The tables of a part whose posterior HMC has sampled; none for other parts."""
    if not isinstance(each.part.problem, PosteriorProblem):
        return []
    images = len(each.arrays["labels"])
    first = (
        f"Distance to HMC on {images:,} test images. A run of a sampler is the mean over its samples, one of "
        "SGD its last network; ± is over runs. Together means the average over all runs, which for SGD is a "
        "deep ensemble."
    )
    second = (
        "R-hat of chains past the burn-in, as median (largest): above 1.01 chains disagree. Every kernel has "
        "a norm and two entries; log-probabilities are those of the right classes. The kinetic temperature "
        "is that of the first kernel past the burn-in, over that of the noise; noise of gradients raises it "
        "above 1."
    )
    return [Captioned(first, _distances(each)), Captioned(second, _agreements(each))]


def _chains(each: PartResult, number: int) -> list[int]:
    """Runs of a method that came to their end with finite numbers."""
    finite = each.arrays["predictions"][number].any((1, 2))
    return [int(run) for run in np.flatnonzero(each.done[number] & finite)]


def together(each: PartResult, number: int) -> Distance | None:
    """What the averaged predictions of all runs of a method come to; None without a run."""
    runs = _chains(each, number)
    if not runs:
        return None
    mean = torch.stack([unpack(each.arrays["predictions"][number, run]) for run in runs]).mean(0)
    return distance(mean, *_judged_by(each))


def _judged_by(each: PartResult) -> tuple[Tensor, Tensor]:
    """HMC's predictions, and the right classes."""
    return unpack(each.arrays["reference"]), torch.from_numpy(each.arrays["labels"]).long()


def _distances(each: PartResult) -> Table:
    rows = []
    for number, method in enumerate(each.methods):
        found = together(each, number)
        if found is not None:
            count = len(_chains(each, number))
            rows.append([f"{method}, one run", *(summary(name, each.values, number) for name in _MEASURES)])
            rows.append([f"{method}, {count} together", *_formatted(found)])
    itself = _formatted(distance(_judged_by(each)[0], *_judged_by(each)))
    return Table(["method", *_HEAD], [*rows, ["HMC", "–", "–", *itself[2:]]])


def _formatted(found: Distance) -> list[str]:
    numbers = (100 * found.agreement, found.total_variation, 100 * found.accuracy, *found[3:])
    return [f"{value:.{digits}f}" for value, digits in zip(numbers, _DIGITS, strict=True)]


def _agreements(each: PartResult) -> Table:
    rows = []
    for number, method in enumerate(each.part.methods):
        runs = _chains(each, number)
        if method.temperature > 0 and runs:
            agreed = [_agreed(each, number, runs, name) for name in TRACES]
            rows.append([method.name, *agreed, _temperature(each, number), str(len(runs))])
    return Table(["method", *TRACES.values(), "kinetic temperature", "chains"], rows)


def _past_burn_in(each: PartResult) -> list[bool]:
    """Which points of the curves are."""
    problem, epochs = each.part.problem, each.arrays["epochs"]
    assert isinstance(problem, PosteriorProblem)
    return [problem.burnt_in(int(epoch), int(epochs[-1])) for epoch in epochs]


def _temperature(each: PartResult, number: int) -> str:
    """A mean over time and runs; none where there is no momentum."""
    found = each.arrays["first_temperature"][_past_burn_in(each), number]
    finite = found[np.isfinite(found)].astype(float)
    return f"{finite.mean():.2f}" if len(finite) else "–"


def _agreed(each: PartResult, number: int, runs: Sequence[int], name: str) -> str:
    draws = each.arrays[name][number, list(runs)][:, _past_burn_in(each)]
    chains = torch.from_numpy(draws.astype(np.float64))
    try:
        found = r_hat(chains)
    except ModuleNotFoundError as error:
        return f"not known: {error}"
    return "–" if found is None else f"{found.median:.2f} ({found.largest:.2f})"


def over_gradients(each: PartResult) -> Figure:
    """Total variation from HMC over gradients of single images: a run, and all runs together in the end."""
    assert isinstance(each.part.problem, PosteriorProblem)
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    gradients = each.arrays["epochs"].astype(float) * each.part.problem.gradients_of_an_epoch
    mean, _ = over_runs(each.arrays["total_variation"].astype(float))
    ends = [mean]
    for number, method in enumerate(each.methods):
        found = together(each, number)
        if found is not None:
            axes.plot(gradients, mean[:, number], linewidth=1.3, **line(method))
            drawn = {**line(method), **point(method), "label": None, "linestyle": "none"}
            axes.plot(gradients[-1:], [found.total_variation], markersize=6, **drawn)
            ends.append(np.array([[found.total_variation]]))
    logarithmic(axes, np.concatenate([values.flatten() for values in ends]))
    axes.set(
        xlabel="gradients of single images in a run",
        ylabel="total variation from HMC",
        title="lines: mean over runs; points: all runs together",
    )
    legend(figure)
    return figure
