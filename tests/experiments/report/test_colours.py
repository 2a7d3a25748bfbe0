import re
from itertools import pairwise

import pytest

from colangevin.experiments.catalogue.index import EXPERIMENTS
from colangevin.experiments.report.colours import LOOKS, PLANE, look
from tests.experiments.tiny import METHODS

# of the cards in web/style.css, where plots are drawn
LIGHT, DARK = "#ffffff", "#1c2228"
PARTS = [(experiment, part) for experiment in EXPERIMENTS for part in experiment.parts]


def luminance(colour):
    """Of WCAG 2.1."""
    shades = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shades]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_is_that_of_wcag():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_every_method_of_the_catalogue_has_a_look_of_its_own():
    for experiment, part in PARTS:
        looks = [LOOKS[method.name] for method in part.methods]
        assert len(set(looks)) == len(looks), f"{experiment.name}, {part.name}"


def test_the_table_has_no_method_that_is_not_there():
    named = {method.name for _, part in PARTS for method in part.methods}
    # the grids of names have a few that nobody runs
    grid = {name for name in LOOKS if name.startswith("SGD-m ") and name.endswith(", WD 1e-4")}
    assert LOOKS.keys() - grid <= named


def test_a_method_that_is_not_in_the_table_has_the_same_look_every_time():
    assert look("mine") == look("mine")
    assert len({look(f"method {number}") for number in range(20)}) > 10


@pytest.mark.parametrize("background", [LIGHT, DARK])
def test_methods_can_be_seen_on_light_and_dark(background):
    assert all(contrast(each.colour, background) >= 3 for each in LOOKS.values())


@pytest.mark.parametrize("theme", PLANE)
def test_training_points_can_be_seen_on_every_shade_of_the_plane(theme):
    plane = PLANE[theme]
    for shade in (plane.low, plane.middle, plane.high):
        assert all(contrast(point, shade) >= 4.5 for point in plane.points)
        assert contrast(plane.boundary, shade) >= 3
    assert all(contrast(point, plane.outline) >= 4.5 for point in plane.points)


def test_a_method_has_one_colour_in_all_figures(folder):
    """Every line of a legend is followed by its label, in the order of the methods."""
    names = [method.name for method in METHODS]
    seen = 0
    for path in (folder / "figures").iterdir():
        _, mark, legend = path.read_text(encoding="utf-8").partition('<g id="legend_1">')
        if mark:
            places = [legend.index(f">{name}</text>") for name in names]
            for name, (start, end) in zip(names, pairwise([0, *places]), strict=True):
                colours = set(re.findall(r"stroke: (#[0-9a-f]{6})", legend[start:end]))
                assert colours == {look(name).colour}
            seen += 1
    assert seen == 1 + 4 + 3  # parts, curves and gradients


def test_the_backgrounds_are_those_of_the_page():
    from importlib.resources import files

    style = files("colangevin.experiments.report").joinpath("web/style.css").read_text(encoding="utf-8")
    assert re.findall(r"--card: (#[0-9a-f]{6})", style) == [LIGHT, DARK]
