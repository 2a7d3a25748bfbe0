import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure

from colangevin.experiments.catalogue.index import EXPERIMENTS
from colangevin.experiments.report import figures
from colangevin.experiments.report.drawing import STYLE, legend, line, logarithmic
from colangevin.experiments.report.results import load
from colangevin.experiments.report.spectra import named


@pytest.mark.parametrize("width", [7, 10])
def test_no_legend_of_the_catalogue_is_cut_off(width):
    for methods in {tuple(m.name for m in part.methods) for each in EXPERIMENTS for part in each.parts}:
        with rc_context(STYLE):
            figure = Figure(figsize=(width, 4), layout="constrained")
            axes = figure.subplots()
            for method in methods:
                axes.plot([], [], **line(method))
            drawn = legend(figure)
            figure.draw_without_rendering()
        box = drawn.get_window_extent()
        assert min(box.x0, box.y0, figure.bbox.x1 - box.x1) >= 0, methods
        assert box.y1 <= axes.get_window_extent().y0


def test_settings_on_a_scale_are_joined_and_categories_are_not(folder, unfinished):
    for where, expected in ((folder, {"-", "--", ":"}), (unfinished, {"None"})):
        axes = Figure().subplots()
        figures.across(axes, load(where)[-1])
        points = [container.lines[0] for container in axes.containers]
        assert {point.get_linestyle() for point in points} <= expected
        assert len(points) == len(load(where)[-1].parts[0].methods)
        places = [point.get_xdata()[0] for point in points]
        assert len(set(places)) == len(places)  # side by side, so that their bars stay apart


def test_one_method_has_a_band_and_it_is_the_claims(folder, unfinished):
    result = load(folder)[1]
    figure = figures._curves(result.parts[0], result.subject)
    assert [len(axes.collections) for axes in figure.axes] == [0, 1, 1]
    colour = figure.axes[1].lines[result.subject.method].get_color()
    red, green, blue, _ = figure.axes[1].collections[0].get_facecolor()[0]
    assert colour == "#{:02x}{:02x}{:02x}".format(*(round(255 * each) for each in (red, green, blue)))
    spectra = figures._spectra(load(unfinished)[0].parts[0], load(unfinished)[0].subject)
    assert len(spectra.axes[0].collections) == 1


def test_axes_of_singular_values_can_be_read(unfinished):
    result = load(unfinished)[0]
    axes = figures._spectra(result.parts[0], result.subject).axes[0]
    assert axes.get_yscale() == "log"
    assert axes.get_ylabel() == "singular value, logarithmic scale"
    assert axes.get_xlabel() == "weights from input to output, some of them named"
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert len(labels) == 13
    assert labels[0] == "stem"


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.3, 4], ["0.5", "1", "2"]), ([1e-3, 10], ["0.001", "0.01", "0.1", "1", "10"]), ([np.nan], [])],
)
def test_logarithmic_axes_have_plain_numbers(values, expected):
    figure = Figure()
    axes = figure.subplots()
    axes.plot(values)
    logarithmic(axes, np.array(values))
    low, high = axes.get_ylim()
    shown = [axes.yaxis.get_major_formatter()(tick) for tick in axes.get_yticks() if low <= tick <= high]
    assert set(expected) <= set(shown)


def test_few_enough_weights_are_named():
    assert named(["a"] * 10, 13) == list(range(10))
    assert named(["a"] * 37, 13) == list(range(0, 37, 3))
    assert len(named(["a"] * 40, 13)) <= 13
