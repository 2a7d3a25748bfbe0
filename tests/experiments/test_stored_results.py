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


def test_no_run_was_lost_but_of_the_largest_steps_and_every_constraint_held(results):
    for name, result in results.items():
        for part in result.parts:
            lost = {method for method, number in zip(part.methods, part.lost, strict=True) if number}
            large = {f"SGD-m {lr}, 0.9{decay}" for lr in ("0.5", "1.0") for decay in ("", ", WD 1e-4")}
            assert lost == (large if name == "transformer-best" else set())
            assert max(part.violation) < 1e-6


def test_no_draw_of_the_data_gives_the_papers_two_numbers(results):
    part = results["two-turn"].parts[0]
    accuracy = dict(zip(part.methods, part.values["test accuracy"], strict=True))
    sgd, ours = accuracy["SGD"], accuracy["C-SGLD τ=5e-5"]
    low, high = sgd <= 81, ours >= 91.7
    assert (low.sum(), high.sum(), (low & high).sum()) == (11, 8, 0)
    assert (ours - sgd).max() == pytest.approx(8.45)


def test_bounds_lead_on_fashion_mnist_in_every_set_up_but_with_the_appendixs_h(results):
    leads = {"c-CoLud": [], "c-CoLud, lr 0.3": [], "c-CoLud, momentum 0.91": []}
    for part in results["fashion-mnist-readings"].parts:
        accuracy = dict(zip(part.methods, part.values["test accuracy"], strict=True))
        for method, found in leads.items():
            found.append((accuracy[method] - accuracy["SGD-m 0.1, 0.8"]).mean())
    ranges = {method: (round(min(found), 2), round(max(found), 2)) for method, found in leads.items()}
    assert ranges == {
        "c-CoLud": (-0.12, 0.03),
        "c-CoLud, lr 0.3": (0.13, 0.43),
        "c-CoLud, momentum 0.91": (0.07, 0.38),
    }


@pytest.mark.parametrize(
    ("name", "part", "lowest"),
    [
        ("transformer", "Penn Treebank", (4.921, 4.887, 4.831)),
        ("transformer", "WikiText-2", (5.028, 5.156, 5.149)),
        ("transformer-search", "batch 256", (4.810, 4.881, 4.835)),
        ("transformer-nearest", "Penn Treebank", (4.786, 4.881, 4.835)),
        ("transformer-search", "batch of 1024 words", (4.878, 4.948, 4.956)),
    ],
)
def test_the_transformers_validation_losses_are_those_that_the_page_says(results, name, part, lowest):
    (found,) = (each for each in results[name].parts if each.part.name == part)
    values = found.values["lowest validation loss"][:3]
    means = [runs[done].mean() for runs, done in zip(values, found.done, strict=False)]
    assert [round(mean, 3) for mean in means] == list(lowest)


@pytest.mark.parametrize(
    ("name", "accuracy"),
    [
        ("resnet34-short", ("64.1 ± 10.4", "71.1 ± 3.4", "84.1 ± 0.3", "84.5 ± 0.2")),
        ("resnet34-identities", ("82.8 ± 0.4", "84.5 ± 0.2", "84.3 ± 0.1", "84.1 ± 0.2")),
    ],
)
def test_resnets_accuracies_in_24_epochs_are_those_that_the_page_says(results, name, accuracy):
    (part,) = (each for each in results[name].parts if each.part.name == "20,000 images")
    found = [runs[done] for runs, done in zip(part.values["test accuracy"], part.done, strict=True)]
    assert [f"{runs.mean():.1f} ± {runs.std(ddof=1):.1f}" for runs in found[:4]] == list(accuracy)


def test_a_step_of_o_colud_on_resnet_takes_at_most_a_quarter_longer_than_sgds(results):
    (part,) = results["resnet34-time"].parts
    means = {
        method: runs.mean() for method, runs in zip(part.methods, part.values["time per step"], strict=True)
    }
    assert part.done.all()
    assert round(means["o-CoLud"] / means["SGD-m"], 2) == 1.19
    assert [round(means[name], 2) for name in ("o-CoLud", "SGD-m", "o-CoLod")] == [6.12, 5.14, 5.92]


def test_resnet_without_momentum_in_the_last_30_epochs_is_as_the_page_says(results):
    (part,) = results["resnet34-overdamped"].parts
    last = {key: part.arrays[key][-30:, :, 0].T for key in ("test_accuracy", "test_loss")}
    text = {
        key: [f"{epochs.mean():.3f} ± {epochs.std(ddof=1):.3f}" for epochs in values]
        for key, values in last.items()
    }
    assert part.methods == ["SGD", "o-CoLod"]
    assert text["test_loss"] == ["0.485 ± 0.024", "0.447 ± 0.027"]
    assert text["test_accuracy"] == ["0.928 ± 0.002", "0.922 ± 0.005"]


def test_the_table_of_claims_is_that_of_the_results():
    text = claims.PAGE.read_text(encoding="utf-8")
    table = text.partition(claims.BEGIN)[2].partition(claims.END)[0]
    assert table.strip() == claims.render().strip(), "run python docs/claims.py"
