"""The figures of a report as SVG."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colangevin.experiments.plane import EDGES, LEVELS
from colangevin.experiments.report.results import PartResult, Result

__all__ = ["COLOURS", "colour", "draw"]

#: told apart by people who see few colours, on white and on black
COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee",
    "#aa3377", "#ee8866", "#44bb99", "#99aa33", "#8899bb",
)  # fmt: skip

# Without these every SVG would differ from the last one.
_STYLE = {
    "svg.hashsalt": "colangevin",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_MOST_PICTURES = 12


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


def _band(axes: Axes, x: Any, mean: Any, std: Any, number: int, label: str) -> None:
    dash = ("-", "--", ":")[number // len(COLOURS) % 3]
    axes.plot(x, mean, dash, color=colour(number), label=label, linewidth=1.2)
    axes.fill_between(x, mean - std, mean + std, color=colour(number), alpha=0.15, linewidth=0)


def _curves(each: PartResult) -> Figure:
    """Loss and accuracy over training, mean and standard deviation over runs."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = (
        ("train_loss", 1, "train loss"),
        ("test_loss", 1, "test loss"),
        ("test_accuracy", 100, "test accuracy, %"),
    )
    for axes, (name, scale, title) in zip(figure.subplots(1, 3), panels, strict=True):
        curves = scale * each.arrays[name].astype(float)
        for number, method in enumerate(each.methods):
            runs = curves[:, number]
            _band(axes, each.arrays["epochs"], runs.mean(1), runs.std(1), number, method)
        axes.set(xlabel="epochs", title=title)
        if name == "train_loss":
            axes.set_yscale("log")
    _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(5, len(labels)), frameon=False)


def _across(result: Result) -> Figure:
    """Test accuracy in the end, part by part."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    names = [each.part.name for each in result.parts]
    for number, method in enumerate(result.parts[0].methods):
        runs = np.stack([each.values["test accuracy"][number] for each in result.parts])
        shift = 0.03 * (number - len(result.parts[0].methods) / 2)
        axes.errorbar(
            np.arange(len(names)) + shift,
            runs.mean(1),
            runs.std(1),
            color=colour(number),
            label=method,
            marker="o",
            markersize=3,
            linewidth=1,
        )
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set(ylabel="test accuracy, %")
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
        )
        x, y = each.arrays["train_x"][0], each.arrays["train_y"][0]
        axes.scatter(x[:, 0], x[:, 1], c=y, cmap="coolwarm", s=3, linewidths=0)
        axes.set_title(f"{method}\n{each.values['test accuracy'][number, 0]:.1f} %", fontsize=8)
    return figure


def _curvature(each: PartResult) -> Figure:
    """Mean curvature of the boundary of every run."""
    figure = Figure(figsize=(7, 0.4 * len(each.methods) + 1), layout="constrained")
    axes = figure.subplots()
    for number, runs in enumerate(each.values["curvature"]):
        heights = number + 0.25 * np.linspace(-1, 1, len(runs))
        axes.scatter(runs, heights, color=colour(number), s=8, linewidths=0)
    axes.set_yticks(range(len(each.methods)), each.methods)
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
                label=method,
                linewidth=0.9,
            )
        axes.set(xlabel=("x, at y = 0", "y, at x = 0")[line], title="|gradient of the prediction|")
    _legend(figure)
    return figure
