"""Figures of classifiers in the plane: what they think of it, and how sharply they turn."""

import numpy as np
from matplotlib.figure import Figure

from colangevin.experiments.judging.plane import EDGES, LEVELS
from colangevin.experiments.report.drawing import colour, legend, plain
from colangevin.experiments.report.gathering import PartResult

__all__ = ["boundaries", "curvature", "gradients"]

_MOST_PICTURES = 12


def boundaries(each: PartResult) -> Figure:
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
        axes.set_title(f"{plain(method)}\n{each.values['test accuracy'][number, 0]:.1f} %", fontsize=8)
    return figure


def curvature(each: PartResult) -> Figure:
    """Mean curvature of the boundary of every run."""
    figure = Figure(figsize=(7, 0.4 * len(each.methods) + 1), layout="constrained")
    axes = figure.subplots()
    for number, runs in enumerate(each.values["curvature"]):
        heights = number + 0.25 * np.linspace(-1, 1, len(runs))
        axes.scatter(runs, heights, color=colour(number), s=8, linewidths=0, rasterized=True)
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
    for line, axes in enumerate(figure.subplots(1, 2, sharey=True)):
        for number, method in enumerate(each.methods):
            axes.plot(
                places,
                each.arrays["gradient_mean"][number, line],
                color=colour(number),
                label=plain(method),
                linewidth=0.9,
            )
        axes.set(xlabel=("x, at y = 0", "y, at x = 0")[line], title="|gradient of the prediction|")
    legend(figure)
    return figure
