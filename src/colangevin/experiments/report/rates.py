"""Figures of experiments whose parts are one method at several learning rates each."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colangevin.experiments.catalogue.parts import NetworkPart, Part
from colangevin.experiments.judging.summaries import over_runs
from colangevin.experiments.report.drawing import legend, line, logarithmic, plain, point
from colangevin.experiments.report.gathering import PartResult
from colangevin.experiments.report.results import Result

__all__ = ["Trial", "best_over_width", "over_rates", "trials"]

_PANELS = 4  # in a row


class Trial(NamedTuple):
    """A method at several learning rates on one problem.

    Attributes:
        method: its name.
        setting: where, in words; empty where there is one setting.
        width: of the network.
        rates: the learning rates of which there are runs, in their order.
        means: what counts, over runs.
    """

    method: str
    setting: str
    width: int
    rates: list[float]
    means: list[float]

    @property
    def best(self) -> float:
        """The rate with the lowest mean; NaN when no training came to its end."""
        pairs = zip(self.means, self.rates, strict=True)
        finite = [(mean, rate) for mean, rate in pairs if np.isfinite(mean)]
        return min(finite)[1] if finite else np.nan


def trials(result: Result) -> list[Trial]:
    """The trials of an experiment; none where the methods of a part differ in more than their rate."""
    if not all(_one_method(each.part) for each in result.parts):
        return []
    return [_trial(each, result.subject.measure) for each in result.parts]


def _one_method(part: Part | NetworkPart) -> bool:
    alike = {replace(method, name="", lr=0.0) for method in part.methods}
    return len(part.methods) > 1 and len(alike) == 1


def _trial(each: PartResult, measure: str) -> Trial:
    method, _, setting = each.part.name.partition(", ")
    means = over_runs(each.values[measure])[0]
    found = [
        (one.lr, float(mean))
        for one, mean, done in zip(each.part.methods, means, each.done, strict=True)
        if done.any()
    ]
    rates, shown = map(list, zip(*sorted(found), strict=True))
    return Trial(method, setting, each.part.problem.width, rates, shown)


def over_rates(found: Sequence[Trial], measure: str) -> Figure:
    """What counts over the learning rate: a panel for each method, a line for each setting."""
    methods = list(dict.fromkeys(trial.method for trial in found))
    settings = list(dict.fromkeys(trial.setting for trial in found))
    rows = -(-len(methods) // _PANELS)
    figure = Figure(figsize=(10, 0.6 + 2.3 * rows), layout="constrained")
    panels = figure.subplots(rows, _PANELS, squeeze=False, sharey=True).flatten()
    for axes, method in zip(panels, methods, strict=False):
        for trial in (trial for trial in found if trial.method == method):
            alpha = 1 - 0.6 * settings.index(trial.setting) / len(settings)
            drawn = {**line(method), "label": plain(trial.setting), "alpha": alpha}
            axes.plot(trial.rates, trial.means, marker="o", markersize=4, linewidth=1.3, **drawn)
        _logarithmic_rates(axes)
        axes.set_title(plain(method), fontsize=8.5)
        if len(settings) > 1:
            axes.legend(frameon=False, fontsize=7)
    for axes in panels[len(methods) :]:
        axes.set_visible(False)
    panels[0].set_ylabel(measure)
    figure.supxlabel("learning rate", fontsize=9)
    return figure


def best_over_width(found: Sequence[Trial]) -> Figure | None:
    """The best learning rate over the width, of methods that ran at several; None without any."""
    of_a_method: dict[str, dict[int, float]] = {}
    for trial in found:
        of_a_method.setdefault(trial.method, {})[trial.width] = trial.best
    compared = {method: best for method, best in of_a_method.items() if len(best) > 1}
    if not compared:
        return None
    widths = sorted({width for best in compared.values() for width in best})
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    shown = []
    for turn, (method, best) in enumerate(compared.items()):
        x, y = np.array(sorted(best.items()), dtype=float).T
        shown.append(y)
        # side by side: best rates of several methods are often the same
        beside = 2 ** (0.12 * ((turn + 0.5) / len(compared) - 0.5))
        axes.plot(x * beside, y, linewidth=1.3, markersize=5, **{**line(method), **point(method)})
    axes.set_xscale("log", base=2)
    axes.set_xticks(widths, list(map(str, widths)))
    logarithmic(axes, np.concatenate(shown))
    axes.set(xlabel="width", ylabel="best learning rate", title="the learning rate with the lowest loss")
    legend(figure)
    return figure


def _logarithmic_rates(axes: Axes) -> None:
    """A logarithmic axis with a number at every learning rate that was tried."""
    axes.set_xscale("log")
    rates = sorted({float(rate) for drawn in axes.lines for rate in np.atleast_1d(drawn.get_xdata())})
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates], fontsize=7, rotation=30)
    axes.set_xticks([], minor=True)
