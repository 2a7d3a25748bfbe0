"""The two pictures of the README, drawn from the stored results: ``python docs/pictures.py``.

They show what the report shows, by its own functions, with larger letters and names beside the curves. Each
has its own light background, so that it can be read on a dark page too. The numbers that it shows are in its
metadata, where the tests compare them with the results.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from colangevin.experiments.report.colours import look
from colangevin.experiments.report.drawing import STYLE, svg
from colangevin.experiments.report.figures import across
from colangevin.experiments.report.gathering import PartResult
from colangevin.experiments.report.plane_figures import boundary
from colangevin.experiments.report.results import Result, load
from colangevin.experiments.report.settings import scale

__all__ = ["ASSETS", "BOUNDARIES", "DEPTH", "draw"]

ASSETS = Path(__file__).parent / "assets"
DEPTH, BOUNDARIES = "accuracy-over-depth.svg", "boundaries.svg"
_RESULTS = ASSETS.parents[1] / "results"
_STYLE: dict[Any, Any] = {
    **STYLE,
    "font.size": 12.0,
    "axes.titlesize": 12.0,
    "svg.fonttype": "path",  # a README is read where DejaVu is not installed
    "savefig.dpi": 200,
}
# Both stand side by side, so they are of one size, in inches.
_SIZE = (5.2, 3.9)
# The height of a line of text beside a curve, in points of accuracy.
_LINE = 5.0


def draw(folder: Path = _RESULTS) -> dict[str, bytes]:
    """Both pictures.

    Args:
        folder: of the results.

    Returns:
        SVG by file name.
    """
    results = {result.experiment.name: result for result in load(folder)}
    with rc_context(_STYLE):
        return {DEPTH: _depth(results["four-turn"]), BOUNDARIES: _boundaries(results["two-turn"])}


def _depth(result: Result) -> bytes:
    """Test accuracy over depth: mean and standard deviation of every method."""
    figure = _panel()
    axes = figure.subplots()
    across(axes, result)
    depths = scale([each.part.name for each in result.parts])
    assert depths is not None
    measure, methods = result.subject.measure, result.parts[0].methods
    means = {
        method: [float(each.values[measure][number].mean()) for each in result.parts]
        for number, method in enumerate(methods)
    }
    _label_ends(axes, max(depths.numbers), {method: values[-1] for method, values in means.items()})
    axes.set(ylim=(40, 103), xticks=depths.numbers)
    ours, theirs = methods[result.subject.method], methods[result.subject.baseline]
    deep = f"{max(depths.numbers)} {depths.label}"
    title = f"{deep}: {ours} {means[ours][-1]:.0f} %, {theirs} {means[theirs][-1]:.0f} %"
    _say(figure, title, f"4-turn spiral; means and deviations of {result.experiment.runs} runs")
    shown = {
        "measure": measure,
        depths.label: depths.numbers,
        "means": {method: [round(value, 2) for value in values] for method, values in means.items()},
    }
    return svg(figure, Title=title, Description=json.dumps(shown, ensure_ascii=False))


def _boundaries(result: Result) -> bytes:
    """Decision boundaries of the claim's two methods, of the run whose lead is nearest to the mean lead."""
    (each,), subject = result.parts, result.subject
    pair = (subject.baseline, subject.method)
    run = _typical_run(each, *pair)
    figure = _panel()
    names = [each.methods[number] for number in pair]
    right = {name: each.values["test accuracy"][number] for name, number in zip(names, pair, strict=True)}
    for axes, name, number in zip(figure.subplots(1, 2), names, pair, strict=True):
        boundary(axes, each, number, run, size=16)
        axes.axis("off")
        axes.set_title(f"{name}\n{right[name][run]:.1f} %", color=look(name).colour, fontweight="bold")
    title = "Bounded weights and noise: a smoother boundary"
    means = " and ".join(f"{values.mean():.1f} %" for values in right.values())
    _say(
        figure,
        title,
        f"2-turn spiral, test accuracy; means of {result.experiment.runs} runs: {means}.\n"
        "Shown: the run whose lead is nearest to the mean lead.",
    )
    shown = {
        "run": run + 1,
        "test accuracy": {name: round(float(values[run]), 2) for name, values in right.items()},
        "means": {name: round(float(values.mean()), 2) for name, values in right.items()},
    }
    return svg(figure, Title=title, Description=json.dumps(shown, ensure_ascii=False))


def _typical_run(each: PartResult, baseline: int, method: int) -> int:
    """The run in which a method leads by what it leads by on average, as nearly as there is."""
    accuracy = each.values["test accuracy"]
    lead = accuracy[method] - accuracy[baseline]
    return int(np.abs(lead - lead.mean()).argmin())


def _panel() -> Figure:
    """A figure on a light panel with round corners."""
    figure = Figure(figsize=_SIZE, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
    figure.patch.set_visible(False)
    panel = FancyBboxPatch(
        (0.004, 0.005),
        0.992,
        0.99,
        boxstyle="round,pad=0,rounding_size=0.025",
        facecolor="#ffffff",
        edgecolor="#d0d7de",
        transform=figure.transFigure,
        zorder=-10,
    )
    panel.set_in_layout(False)
    figure.add_artist(panel)
    return figure


def _say(figure: Figure, title: str, note: str) -> None:
    """What to see above a picture, and where it comes from below it."""
    figure.suptitle(title, fontsize=12, fontweight="bold")
    figure.supxlabel(note, fontsize=10.5, color="#4a545e")


def _label_ends(axes: Axes, x: float, ends: dict[str, float]) -> None:
    """Names beside the ends of curves, moved apart where they would overlap."""
    free = np.inf
    for method, y in sorted(ends.items(), key=lambda item: -item[1]):
        name = method.replace(", ", ",\n", 1)
        height = _LINE * (1 + name.count("\n"))
        middle = min(y, free - height / 2)
        free = middle - height / 2
        axes.annotate(
            name, (x + 0.25, middle), color=look(method).colour, va="center", fontsize=11, linespacing=0.95
        )


def main() -> None:
    """Write both."""
    ASSETS.mkdir(exist_ok=True)
    for name, picture in draw().items():
        (ASSETS / name).write_bytes(picture)


if __name__ == "__main__":
    main()
