"""The figures of a report as SVG."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colangevin.experiments.judging.curves import CURVES
from colangevin.experiments.judging.summaries import over_runs, readable
from colangevin.experiments.report.drawing import COLOURS, STYLE, colour, legend, plain, svg
from colangevin.experiments.report.gathering import PartResult
from colangevin.experiments.report.plane_figures import boundaries, curvature, gradients
from colangevin.experiments.report.results import Result
from colangevin.experiments.report.spectra import quantiles

__all__ = ["draw"]

_MOST_BANDS = 6


def draw(results: Sequence[Result]) -> dict[str, bytes]:
    """All figures.

    Args:
        results: of experiments.

    Returns:
        SVG by file name, which begins with the experiment's.
    """
    drawn: dict[str, bytes] = {}
    with rc_context(STYLE):
        for result in results:
            name = result.experiment.name
            if len(result.parts) > 1:
                drawn[f"{name}.parts.svg"] = svg(_across(result))
            for each in result.parts:
                stem = f"{name}.{each.part.slug}"
                drawn[f"{stem}.curves.svg"] = svg(_curves(each))
                if "singular_values" in each.arrays:
                    drawn[f"{stem}.spectra.svg"] = svg(_spectra(each))
                if "picture" in each.arrays:
                    drawn[f"{stem}.boundaries.svg"] = svg(boundaries(each))
                if "gradient_mean" in each.arrays:
                    drawn[f"{stem}.curvature.svg"] = svg(curvature(each))
                    drawn[f"{stem}.gradients.svg"] = svg(gradients(each))
    return drawn


def _line(axes: Axes, x: Any, mean: Any, std: Any | None, number: int, label: str) -> None:
    dash = ("-", "--", ":")[number // len(COLOURS) % 3]
    axes.plot(x, mean, dash, color=colour(number), label=label, linewidth=1.2)
    if std is not None:
        axes.fill_between(x, mean - std, mean + std, color=colour(number), alpha=0.15, linewidth=0)


def _curves(each: PartResult) -> Figure:
    """Loss and accuracy over training, mean and, where methods are few, standard deviation over runs."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = ("train_loss", "test_loss", "test_accuracy")
    if "validation_loss" in each.arrays:
        panels = ("train_loss", "validation_loss", "test_loss")
    for axes, name in zip(figure.subplots(1, 3), panels, strict=True):
        title, scale = CURVES[name]
        mean, std = over_runs(scale * each.arrays[name].astype(float))
        for number, method in enumerate(each.methods):
            runs = each.done[number].sum()
            if runs:
                # No band on a logarithmic axis, where it may reach below 0; none for one run, which has no
                # deviation; none among many methods, whose bands hide each other.
                banded = name != "train_loss" and runs > 1 and len(each.methods) <= _MOST_BANDS
                band = std[:, number] if banded else None
                _line(axes, each.arrays["epochs"], mean[:, number], band, number, plain(method))
        axes.set(xlabel="epochs", title=title)
        if name == "train_loss":
            axes.set_yscale("log")
        elif name.endswith("loss"):
            axes.set_ylim(readable(mean))
    legend(figure)
    return figure


def _spectra(each: PartResult) -> Figure:
    """Singular values of every weight in the end: the median between the smallest and the largest."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    axes = figure.subplots()
    low, middle, high = quantiles(each.arrays["singular_values"])
    x = np.arange(len(each.layers))
    for number, method in enumerate(each.methods):
        if each.done[number].any():
            axes.plot(x, middle[number], color=colour(number), label=plain(method), linewidth=1.2)
            axes.fill_between(x, low[number], high[number], color=colour(number), alpha=0.12, linewidth=0)
    axes.set_yscale("log")
    axes.set_xticks(x, list(map(plain, each.layers)), rotation=90, fontsize=5)
    axes.set(title="singular values: median, smallest to largest")
    legend(figure)
    return figure


def _across(result: Result) -> Figure:
    """What counts most in the end, part by part."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    names = [plain(each.part.name) for each in result.parts]
    first = result.parts[0]
    losses = all("lowest validation loss" in each.values for each in result.parts)
    measure = "lowest validation loss" if losses else "test accuracy"
    for number, method in enumerate(first.methods):
        runs = np.stack([each.values[measure][number] for each in result.parts])
        mean, std = over_runs(runs)
        shift = 0.03 * (number - len(first.methods) / 2)
        axes.errorbar(
            np.arange(len(names)) + shift,
            mean,
            std,
            color=colour(number),
            label=plain(method),
            marker="o",
            markersize=3,
            linewidth=1,
        )
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set(ylabel=f"{measure}, %" if measure.endswith("accuracy") else measure)
    legend(figure)
    return figure
