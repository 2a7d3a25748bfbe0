"""The figures of a report as SVG."""

from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colangevin.experiments.judging.curves import CURVES
from colangevin.experiments.judging.summaries import over_runs, readable
from colangevin.experiments.report.colours import look
from colangevin.experiments.report.drawing import STYLE, band, legend, line, logarithmic, plain, point, svg
from colangevin.experiments.report.gathering import PartResult
from colangevin.experiments.report.plane_figures import boundaries, curvature, gradients
from colangevin.experiments.report.posteriors import over_gradients
from colangevin.experiments.report.rates import best_over_width, over_rates, trials
from colangevin.experiments.report.results import Result, Subject
from colangevin.experiments.report.settings import scale
from colangevin.experiments.report.spectra import named, quantiles

__all__ = ["across", "draw"]


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
                drawn[f"{name}.parts.svg"] = svg(_parts(result))
            if tried := trials(result):
                drawn[f"{name}.rates.svg"] = svg(over_rates(tried, result.subject.measure))
                if (best := best_over_width(tried)) is not None:
                    drawn[f"{name}.widths.svg"] = svg(best)
            for each in result.parts:
                stem = f"{name}.{each.part.slug}"
                drawn[f"{stem}.curves.svg"] = svg(_curves(each, result.subject))
                if "predictions" in each.arrays:
                    drawn[f"{stem}.distance.svg"] = svg(over_gradients(each))
                if "singular_values" in each.arrays:
                    drawn[f"{stem}.spectra.svg"] = svg(_spectra(each, result.subject))
                if "row_norms" in each.arrays:
                    drawn[f"{stem}.norms.svg"] = svg(_norms(each, result.subject))
                if "picture" in each.arrays:
                    drawn[f"{stem}.boundaries.svg"] = svg(boundaries(each))
                if "gradient_mean" in each.arrays:
                    drawn[f"{stem}.curvature.svg"] = svg(curvature(each))
                    drawn[f"{stem}.gradients.svg"] = svg(gradients(each))
    return drawn


def _curves(each: PartResult, subject: Subject) -> Figure:
    """Loss and accuracy over training: means over runs, and the deviation of the method in question."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = ("train_loss", "test_loss", "test_accuracy")
    if "validation_loss" in each.arrays:
        panels = ("train_loss", "validation_loss", "test_loss")
    if "validation_bits" in each.arrays:
        panels = ("train_loss", "validation_bits", "test_bits")
    if "total_variation" in each.arrays:
        panels = ("total_variation", "test_loss", "test_accuracy")
    epochs = each.arrays["epochs"]
    for axes, name in zip(figure.subplots(1, 3), panels, strict=True):
        title, factor = CURVES[name]
        mean, std = over_runs(factor * each.arrays[name].astype(float))
        on_decades = name == "train_loss" or name.endswith("bits")
        for number, method in enumerate(each.methods):
            runs = each.done[number].sum()
            if runs:
                axes.plot(epochs, mean[:, number], linewidth=1.3, **line(method))
            # No band on a logarithmic axis, where it may reach below 0, and none for one run, which has no
            # deviation. One band at a time: several hide each other.
            if number == subject.method and runs > 1 and not on_decades:
                middle, half = mean[:, number], std[:, number]
                band(axes, epochs, np.maximum(0, middle - half), middle + half, method)
        axes.set(xlabel="epochs", title=title)
        if on_decades:
            logarithmic(axes, mean)
        elif name.endswith("loss"):
            axes.set_ylim(readable(mean))
    legend(figure)
    return figure


def _spectra(each: PartResult, subject: Subject) -> Figure:
    """Singular values of every weight in the end, beside 1, which those of orthogonal weights are."""
    figure = _weight_by_weight(each, subject, "singular_values", "singular value")
    figure.axes[0].axhline(1, color="#888888", linewidth=0.6)
    return figure


def _norms(each: PartResult, subject: Subject) -> Figure:
    """Norms of the rows of every weight in the end."""
    return _weight_by_weight(each, subject, "row_norms", "norm of a row")


def _weight_by_weight(each: PartResult, subject: Subject, array: str, what: str) -> Figure:
    """Numbers of every weight in the end: medians, and the range of the method in question."""
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    axes = figure.subplots()
    low, middle, high = quantiles(each.arrays[array])
    places = np.arange(len(each.layers))
    ran = [number for number in range(len(each.methods)) if each.done[number].any()]
    for turn, number in enumerate(ran):
        method = each.methods[number]
        x = places + 0.7 * ((turn + 0.5) / len(ran) - 0.5)
        drawn = {**line(method), **point(method), "linestyle": "none"}
        axes.plot(x, middle[number], markersize=3.5, **drawn)
        if number == subject.method:
            axes.vlines(x, low[number], high[number], color=look(method).colour, linewidth=1.2)
    shown = named(each.layers, 13)
    axes.set_xticks(
        places[shown], [plain(each.layers[k].removesuffix(".weight")) for k in shown], fontsize=7.5
    )
    axes.tick_params(axis="x", labelrotation=35)
    for label in axes.get_xticklabels():
        label.set(horizontalalignment="right", rotation_mode="anchor")
    logarithmic(axes, np.stack([low, middle, high]))
    range_of = f"; bars from the smallest to the largest: {each.methods[subject.method]}"
    axes.set(
        title=plain(f"{what} in the end, median of each weight" + range_of * (subject.method in ran)),
        xlabel=f"weights from input to output{', some of them named' * (len(shown) < len(places))}",
        ylabel=f"{what}, logarithmic scale",
    )
    legend(figure)
    return figure


def _parts(result: Result) -> Figure:
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    across(figure.subplots(), result)
    legend(figure)
    return figure


def across(axes: Axes, result: Result) -> None:
    """What counts most in the end, part by part: means and standard deviations over runs.

    Parts on a scale are joined by lines; between categories there is none.

    Args:
        axes: to draw on.
        result: of an experiment with several parts.
    """
    names = [each.part.name for each in result.parts]
    found, measure, methods = scale(names), result.subject.measure, result.parts[0].methods
    places = np.array(found.numbers if found else range(len(names)), dtype=float)
    closest = np.diff(np.sort(places)).min()
    width = closest * (0.15 if found else 0.7)  # of the methods side by side, so that their bars stay apart
    for number, method in enumerate(methods):
        mean, std = over_runs(np.stack([each.values[measure][number] for each in result.parts]))
        shift = width * ((number + 0.5) / len(methods) - 0.5)
        drawn = {**line(method), **point(method), **({} if found else {"linestyle": "none"})}
        axes.errorbar(places + shift, mean, std, markersize=4, linewidth=1.3, elinewidth=0.9, **drawn)
    if found:
        axes.set_xticks(places)
        axes.set_xlabel(plain(found.label))
    else:
        axes.set_xticks(places, list(map(plain, names)), rotation=20, ha="right", rotation_mode="anchor")
    axes.set_ylabel(f"{measure}, %" if measure.endswith("accuracy") else measure)
