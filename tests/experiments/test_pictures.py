"""The pictures of the README: they are those of the stored results."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from colangevin.experiments.report.results import load
from docs import pictures

RESULTS = Path(__file__).parents[2] / "results"
DESCRIPTION = ".//{http://purl.org/dc/elements/1.1/}description"
TITLE = "{http://www.w3.org/2000/svg}title"


@pytest.fixture(scope="module")
def drawn():
    return pictures.draw()


@pytest.fixture(scope="module")
def results():
    return {result.experiment.name: result for result in load(RESULTS)}


def said(picture):
    """The title of a picture and the numbers that it shows."""
    root = ElementTree.fromstring(picture)
    return root.find(TITLE).text, json.loads(root.find(DESCRIPTION).text)


def test_the_stored_pictures_show_what_the_results_say(drawn):
    assert {path.name for path in pictures.ASSETS.glob("*.svg")} >= drawn.keys()
    for name, picture in drawn.items():
        assert said((pictures.ASSETS / name).read_bytes()) == said(picture), "run python docs/pictures.py"


def test_a_picture_of_other_numbers_is_noticed(drawn):
    title, numbers = said(drawn[pictures.DEPTH])
    assert said(drawn[pictures.DEPTH].replace(b"98.83", b"98.84")) != (title, numbers)


def test_they_are_small_and_the_same_every_time(drawn):
    assert pictures.draw() == drawn
    assert all(len(picture) < 150_000 for picture in drawn.values())


def test_accuracies_over_depth_are_those_of_every_method(drawn, results):
    title, numbers = said(drawn[pictures.DEPTH])
    result = results["four-turn"]
    assert numbers["hidden layers"] == [2, 3, 4, 5, 6, 7, 8]
    for number, method in enumerate(result.parts[0].methods):
        means = [each.values["test accuracy"][number].mean() for each in result.parts]
        assert numbers["means"][method] == pytest.approx(means, abs=0.006)
    assert title == "8 hidden layers: o-CoLod 99 %, SGD 61 %"


def test_the_boundaries_are_of_a_run_that_leads_as_on_average(drawn, results):
    title, numbers = said(drawn[pictures.BOUNDARIES])
    part = results["two-turn"].parts[0]
    accuracy = dict(zip(part.methods, part.values["test accuracy"], strict=True))
    lead = accuracy["C-SGLD τ=5e-5"] - accuracy["SGD"]
    assert list(numbers["test accuracy"]) == ["SGD", "C-SGLD τ=5e-5"]
    shown = numbers["test accuracy"]["C-SGLD τ=5e-5"] - numbers["test accuracy"]["SGD"]
    assert np.abs(lead - lead.mean()).min() == pytest.approx(abs(shown - lead.mean()), abs=0.02)
    assert title == "Bounded weights and noise: a smoother boundary"


def test_the_title_of_the_boundaries_is_a_claim_that_holds(results):
    smooth = [each for each in results["two-turn"].findings if each.claim.measure == "sharpest transition"]
    assert [(each.claim.method, each.verdict) for each in smooth] == [("C-SGLD τ=5e-5", "holds")]
