"""The results that are kept with the code: whole, small, and what the documentation says of them."""

import json
from pathlib import Path

import pytest

from colangevin.experiments.report.results import load
from docs import claims

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results"
# a page, its figures and thin curves, not raw weights
MOST_BYTES = 20_000_000


@pytest.fixture(scope="module")
def results():
    return {result.experiment.name: result for result in load(FOLDER)}


def test_they_stay_small():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < MOST_BYTES


def test_they_say_where_they_come_from():
    for path in FOLDER.glob("*/run.json"):
        run = json.loads(path.read_text())
        assert run["device"] == "NVIDIA H200"
        assert len(run["commit"]) == 40
        assert run["machine"]["platform"] == "Linux"


def test_the_experiments_on_spirals_and_fashion_mnist_are_complete(results):
    fashion = ("fashion-mnist", "fashion-mnist-grid", "fashion-mnist-readings")
    for name in ("two-turn", "four-turn", "four-turn-penalty", *fashion):
        assert not results[name].missing
        assert results[name].experiment.runs == {"two-turn": 100}.get(name, 10 if "four" in name else 5)


def test_no_run_was_lost_and_every_constraint_held(results):
    for result in results.values():
        for part in result.parts:
            assert not any(part.lost)
            assert max(part.violation) < 1e-6


def test_no_draw_of_the_data_gives_the_papers_two_numbers(results):
    part = results["two-turn"].parts[0]
    accuracy = dict(zip(part.methods, part.values["test accuracy"], strict=True))
    sgd, ours = accuracy["SGD"], accuracy["C-SGLD τ=5e-5"]
    low, high = sgd <= 81, ours >= 91.7
    assert (low.sum(), high.sum(), (low & high).sum()) == (11, 8, 0)
    assert (ours - sgd).max() == pytest.approx(8.45)


def test_bounds_lead_on_fashion_mnist_in_every_set_up_where_h_is_a_learning_rate(results):
    leads = {"c-CoLud": [], "c-CoLud, lr 0.3": []}
    for part in results["fashion-mnist-readings"].parts:
        accuracy = dict(zip(part.methods, part.values["test accuracy"].mean(1), strict=True))
        for method, found in leads.items():
            found.append(accuracy[method] - accuracy["SGD-m 0.1, 0.8"])
    assert [round(x, 2) for x in (min(leads["c-CoLud"]), max(leads["c-CoLud"]))] == [-0.11, 0.03]
    fast = leads["c-CoLud, lr 0.3"]
    assert [round(x, 2) for x in (min(fast), max(fast))] == [0.18, 0.42]


def test_the_table_of_claims_is_that_of_the_results():
    text = claims.PAGE.read_text(encoding="utf-8")
    table = text.partition(claims.BEGIN)[2].partition(claims.END)[0]
    assert table.strip() == claims.render().strip(), "run python docs/claims.py"
