"""Figures of classifiers in the plane: what they think of it, and how sharply they turn."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from colangevin.experiments.judging.plane import EDGES, LEVELS
from colangevin.experiments.report.colours import PLANE, look
from colangevin.experiments.report.drawing import legend, line, plain
from colangevin.experiments.report.gathering import PartResult

__all__ = ["boundaries", "boundary", "curvature", "gradients"]

_MOST_PICTURES = 12
# An SVG figure brings its own light background.
_COLOURS = PLANE["light"]
_SHADES = LinearSegmentedColormap.from_list("plane", [_COLOURS.low, _COLOURS.middle, _COLOURS.high])


def boundaries(each: PartResult) -> Figure:
    """What every method's classifier of the first run thinks of the plane."""
    methods = each.methods[:_MOST_PICTURES]
    columns = min(5, len(methods))
    rows = -(-len(methods) // columns)
    figure = Figure(figsize=(2.2 * columns, 2.4 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes in grid:
        axes.axis("off")
    for number, (axes, method) in enumerate(zip(grid, methods, strict=False)):
        boundary(axes, each, number, 0, size=6)
        axes.set_title(f"{plain(method)}\n{each.values['test accuracy'][number, 0]:.1f} %", fontsize=8)
    return figure


def boundary(axes: Axes, each: PartResult, method: int, run: int, size: float) -> None:
    """What one classifier thinks of the plane, its boundary, and the points it was trained on.

    Args:
        axes: to draw on.
        each: a part with pictures.
        method: its place among the methods.
        run: its number, from 0.
        size: of the training points, as matplotlib's ``s``.
    """
    edge = EDGES[each.part.problem.data]
    picture = each.arrays["picture"][method, run]
    extent = (-edge, edge, -edge, edge)
    axes.imshow(
        picture,
        origin="lower",
        extent=extent,
        cmap=_SHADES,
        vmin=0,
        vmax=LEVELS - 1,
        interpolation="none",  # as it is stored, not drawn anew in more pixels
    )
    half = (LEVELS - 1) / 2
    if picture.min() < half < picture.max():
        lines = axes.contour(picture, [half], colors=_COLOURS.boundary, linewidths=0.8, extent=extent)
        lines.set_rasterized(True)
    own = min(run, len(each.arrays["train_x"]) - 1)
    x, y = each.arrays["train_x"][own], each.arrays["train_y"][own]
    for label, (colour, marker) in enumerate(zip(_COLOURS.points, "os", strict=True)):
        mine = x[y == label]
        axes.scatter(
            mine[:, 0],
            mine[:, 1],
            c=colour,
            marker=marker,
            s=size,
            linewidths=0.08 * size**0.5,
            edgecolors=_COLOURS.outline,
            rasterized=True,
        )


def curvature(each: PartResult) -> Figure:
    """Mean curvature of the boundary of every run."""
    figure = Figure(figsize=(7, 0.4 * len(each.methods) + 1), layout="constrained")
    axes = figure.subplots()
    for number, (method, runs) in enumerate(zip(each.methods, each.values["curvature"], strict=True)):
        heights = number + 0.25 * np.linspace(-1, 1, len(runs))
        axes.scatter(runs, heights, color=look(method).colour, s=8, linewidths=0, rasterized=True)
    axes.set_yticks(range(len(each.methods)), list(map(plain, each.methods)))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set(xlabel="mean curvature of the decision boundary, a point for each run")
    return figure


def gradients(each: PartResult) -> Figure:
    """Absolute gradient of the prediction along the axes, over runs."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    edge = EDGES[each.part.problem.data]
    places = np.linspace(-edge, edge, each.arrays["gradient_mean"].shape[-1])
    for axis, axes in enumerate(figure.subplots(1, 2, sharey=True)):
        for number, method in enumerate(each.methods):
            axes.plot(places, each.arrays["gradient_mean"][number, axis], linewidth=1, **line(method))
        axes.set(xlabel=("x, at y = 0", "y, at x = 0")[axis], title="|gradient of the prediction|")
    legend(figure)
    return figure
