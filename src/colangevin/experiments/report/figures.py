"""The figures of a report as SVG."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colangevin.experiments.judging.curves import CURVES
from colangevin.experiments.judging.plane import EDGES, LEVELS
from colangevin.experiments.judging.summaries import over_runs, readable
from colangevin.experiments.report.results import PartResult, Result
from colangevin.experiments.report.spectra import quantiles

__all__ = ["COLOURS", "colour", "draw"]

#: told apart by people who see few colours, on white and on black
COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee",
    "#aa3377", "#ee8866", "#44bb99", "#99aa33", "#8899bb",
)  # fmt: skip

_STYLE = {
    "svg.hashsalt": "colangevin",  # a fixed salt: the same figure gives the same bytes
    "svg.fonttype": "none",  # text as text
    "font.sans-serif": ["DejaVu Sans", "Verdana"],  # every piece of text repeats this list
    "savefig.dpi": 72,  # of what is rasterized
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_MOST_PICTURES = 12
_MOST_BANDS = 6


def colour(number: int) -> str:
    """Of a method."""
    return COLOURS[number % len(COLOURS)]


def draw(results: Sequence[Result]) -> dict[str, bytes]:
    """All figures.

    Args:
        results: of experiments.

    Returns:
        SVG by file name, which begins with the experiment's.
    """
    drawn: dict[str, bytes] = {}
    with rc_context(_STYLE):  # type: ignore[arg-type]
        for result in results:
            name = result.experiment.name
            if len(result.parts) > 1:
                drawn[f"{name}.parts.svg"] = _svg(_across(result))
            for each in result.parts:
                stem = f"{name}.{each.part.slug}"
                drawn[f"{stem}.curves.svg"] = _svg(_curves(each))
                if "singular_values" in each.arrays:
                    drawn[f"{stem}.spectra.svg"] = _svg(_spectra(each))
                if "picture" in each.arrays:
                    drawn[f"{stem}.boundaries.svg"] = _svg(_boundaries(each))
                if "gradient_mean" in each.arrays:
                    drawn[f"{stem}.curvature.svg"] = _svg(_curvature(each))
                    drawn[f"{stem}.gradients.svg"] = _svg(_gradients(each))
    return drawn


def _svg(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def _plain(text: str) -> str:
    """Text in which matplotlib sees no formula."""
    return text.replace("$", r"\$")


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
                # below zero there is no logarithm, one run has no deviation, and more bands hide each other
                banded = name != "train_loss" and runs > 1 and len(each.methods) <= _MOST_BANDS
                band = std[:, number] if banded else None
                _line(axes, each.arrays["epochs"], mean[:, number], band, number, _plain(method))
        axes.set(xlabel="epochs", title=title)
        if name == "train_loss":
            axes.set_yscale("log")
        elif name.endswith("loss"):
            axes.set_ylim(readable(mean))
    _legend(figure)
    return figure


def _spectra(each: PartResult) -> Figure:
    """Singular values of every weight in the end: the median between the smallest and the largest."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    axes = figure.subplots()
    low, middle, high = quantiles(each.arrays["singular_values"])
    x = np.arange(len(each.layers))
    for number, method in enumerate(each.methods):
        if each.done[number].any():
            axes.plot(x, middle[number], color=colour(number), label=_plain(method), linewidth=1.2)
            axes.fill_between(x, low[number], high[number], color=colour(number), alpha=0.12, linewidth=0)
    axes.set_yscale("log")
    axes.set_xticks(x, list(map(_plain, each.layers)), rotation=90, fontsize=5)
    axes.set(title="singular values: median, smallest to largest")
    _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    """All methods below the plots, as many in a row as there is room for."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    widest = 0.5 + 0.075 * max(map(len, labels))  # inches, with the line before it
    columns = max(1, min(len(labels), int(figure.get_figwidth() / widest)))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def _across(result: Result) -> Figure:
    """What counts most in the end, part by part."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    names = [_plain(each.part.name) for each in result.parts]
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
            label=_plain(method),
            marker="o",
            markersize=3,
            linewidth=1,
        )
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set(ylabel=f"{measure}, %" if measure.endswith("accuracy") else measure)
    _legend(figure)
    return figure


def _boundaries(each: PartResult) -> Figure:
    """What every method's classifier of the first run thinks of the plane."""
    methods = each.methods[:_MOST_PICTURES]
    columns = min(5, len(methods))
    rows = -(-len(methods) // columns)
    figure = Figure(figsize=(2.2 * columns, 2.4 * rows), layout="constrained")
    edge = EDGES[each.part.problem.data]
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes in grid:
        axes.axis("off")
    for number, (axes, method) in enumerate(zip(grid, methods, strict=False)):
        axes.imshow(
            each.arrays["picture"][number, 0],
            origin="lower",
            extent=(-edge, edge, -edge, edge),
            cmap="coolwarm",
            vmin=0,
            vmax=LEVELS - 1,
            alpha=0.5,
            interpolation="none",  # as it is stored, not drawn anew in more pixels
        )
        x, y = each.arrays["train_x"][0], each.arrays["train_y"][0]
        axes.scatter(x[:, 0], x[:, 1], c=y, cmap="coolwarm", s=3, linewidths=0, rasterized=True)
        axes.set_title(f"{_plain(method)}\n{each.values['test accuracy'][number, 0]:.1f} %", fontsize=8)
    return figure


def _curvature(each: PartResult) -> Figure:
    """Mean curvature of the boundary of every run."""
    figure = Figure(figsize=(7, 0.4 * len(each.methods) + 1), layout="constrained")
    axes = figure.subplots()
    for number, runs in enumerate(each.values["curvature"]):
        heights = number + 0.25 * np.linspace(-1, 1, len(runs))
        axes.scatter(runs, heights, color=colour(number), s=8, linewidths=0, rasterized=True)
    axes.set_yticks(range(len(each.methods)), list(map(_plain, each.methods)))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set(xlabel="mean curvature of the decision boundary, a point for each run")
    return figure


def _gradients(each: PartResult) -> Figure:
    """Absolute gradient of the prediction along the axes, over runs."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    edge = EDGES[each.part.problem.data]
    places = np.linspace(-edge, edge, each.arrays["gradient_mean"].shape[-1])
    for line, axes in enumerate(figure.subplots(1, 2, sharey=True)):
        for number, method in enumerate(each.methods):
            axes.plot(
                places,
                each.arrays["gradient_mean"][number, line],
                color=colour(number),
                label=_plain(method),
                linewidth=0.9,
            )
        axes.set(xlabel=("x, at y = 0", "y, at x = 0")[line], title="|gradient of the prediction|")
    _legend(figure)
    return figure
