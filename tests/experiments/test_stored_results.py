"""The results that are kept with the code: whole, and what docs/reproduction.md says of them."""

import json
from pathlib import Path

import pytest

from colangevin.experiments.report.results import load
from docs import claims

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results"


@pytest.fixture(scope="module")
def results():
    return {result.experiment.name: result for result in load(FOLDER)}


@pytest.fixture(scope="module")
def page():
    """The text of docs/reproduction.md, its line breaks taken out."""
    return " ".join(claims.PAGE.read_text(encoding="utf-8").split())


def test_they_are_numbers_alone():
    drawn = {
        "report.html",
        "report.md",
        "figures",
    }  # by colangevin report, from the numbers; git ignores them
    for path in FOLDER.iterdir():
        if path.name not in drawn:
            assert {file.suffix for file in path.iterdir()} == {".json", ".npz"}


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


def test_no_draw_of_the_data_gives_the_papers_two_numbers(results, page):
    part = results["two-turn"].parts[0]
    accuracy = dict(zip(part.methods, part.values["test accuracy"], strict=True))
    sgd, ours = accuracy["SGD"], accuracy["C-SGLD τ=5e-5"]
    low, high = sgd <= 81, ours >= 91.7
    assert not (low & high).any()
    assert (
        f"of 100 draws of the data SGD ends at 81 % or less in {low.sum()} and C-SGLD at 91.7 % or more in "
        f"{high.sum()}, never in the same; the largest lead is {(ours - sgd).max():.2f} points"
    ) in page


def test_the_leads_on_fashion_mnist_over_all_set_ups_are_those_on_the_page(results, page):
    methods = ("c-CoLud, lr 0.3", "c-CoLud, momentum 0.91", "c-CoLud")
    leads = {method: [] for method in methods}
    for part in results["fashion-mnist-readings"].parts:
        accuracy = dict(zip(part.methods, part.values["test accuracy"], strict=True))
        for method, found in leads.items():
            found.append((accuracy[method] - accuracy["SGD-m 0.1, 0.8"]).mean())
    rate, long, printed = ((min(found), max(found)) for found in leads.values())
    assert (
        f"h as the learning rate leads by {rate[0]:.2f} to {rate[1]:.2f}, a momentum of 0.91 by "
        f"{long[0]:.2f} (pixels from -1 to 1: not told from none) to {long[1]:.2f}, the appendix's h by "
        f"{printed[0]:+.2f} to {printed[1]:+.2f}"
    ) in page


@pytest.mark.parametrize(
    ("name", "method", "row"),
    [
        ("fashion-mnist", "c-CoLud, lr 0.3", "0.3 | e^(−γh) = 0.74 | {} |"),
        ("fashion-mnist", "c-CoLud", "0.09 | e^(−γh) = 0.74 | {} |"),
        ("fashion-mnist-readings", "c-CoLud, momentum 0.91", "0.09 | e^(−γh²) = 0.91 | {} |"),
        ("fashion-mnist", "SGD-m 0.1, 0.8", "| `SGD-m 0.1, 0.8` | 0.1 | 0.8 | {} |"),
    ],
)
def test_the_readings_of_h_on_fashion_mnist_are_those_on_the_page(results, page, name, method, row):
    part = results[name].parts[0]
    number = part.methods.index(method)
    accuracy, loss = (part.values[measure][number] for measure in ("test accuracy", "test loss"))
    numbers = f"{accuracy.mean():.2f} ± {accuracy.std(ddof=1):.2f} | {loss.mean():.3f}"
    assert row.format(numbers) in page


@pytest.mark.parametrize(
    ("name", "part", "sentence"),
    [
        ("transformer", "Penn Treebank", "| 1024 texts a batch (`transformer`) | 3, 200 | {} | {} | {} |"),
        (
            "transformer",
            "WikiText-2",
            "c-CoLud has a lowest validation loss of {}, SGD-m (0.1, 0.9) {} and SGD-m with weight decay {}",
        ),
        (
            "transformer-search",
            "batch 256",
            "| 256 texts a batch (`transformer-search`) | 1, 100 | {} | {} | {} |",
        ),
        (
            "transformer-nearest",
            "Penn Treebank",
            "| 256 texts a batch (`transformer-nearest`) | 5, 200 | {} | {} | {} |",
        ),
        (
            "transformer-search",
            "batch of 1024 words",
            "| 1024 words a batch (`transformer-search`) | 1, 100 | {} | {} | {} |",
        ),
    ],
)
def test_the_transformers_validation_losses_are_those_on_the_page(results, page, name, part, sentence):
    (found,) = (each for each in results[name].parts if each.part.name == part)
    values = found.values["lowest validation loss"][:3]
    means = [runs[done].mean() for runs, done in zip(values, found.done, strict=False)]
    assert sentence.format(*(f"{mean:.3f}" for mean in means)) in page


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "resnet34-short",
            "o-CoLud has {2} %, SGD-m with the penalty (λ = 1e-2, found in `resnet34-penalty` on the same "
            "test images) {3}, with weight decay 5e-4 {1}, without {0}",
        ),
        (
            "resnet34-identities",
            "SGD-m then has {0} %, with weight decay {1}, o-CoLud {2}, the penalty {3}",
        ),
    ],
)
def test_resnets_accuracies_in_24_epochs_are_those_on_the_page(results, page, name, sentence):
    (part,) = (each for each in results[name].parts if each.part.name == "20,000 images")
    found = [runs[done] for runs, done in zip(part.values["test accuracy"], part.done, strict=True)]
    assert sentence.format(*(f"{runs.mean():.1f} ± {runs.std(ddof=1):.1f}" for runs in found[:4])) in page


def test_the_times_of_a_step_on_resnet_are_those_on_the_page(results, page):
    (part,) = results["resnet34-time"].parts
    means = {
        method: runs.mean() for method, runs in zip(part.methods, part.values["time per step"], strict=True)
    }
    assert part.done.all()
    ratio = means["o-CoLud"] / means["SGD-m"]
    assert ratio < 1.25
    penalty = means["SGD-m, penalty λ=1e-2"]
    assert (
        f"A step takes {means['o-CoLud']:.2f} ms with o-CoLud and {means['SGD-m']:.2f} with SGD-m, "
        f"{ratio:.2f} times as much. It takes {means['o-CoLod']:.2f} with o-CoLod and "
        f"{penalty:.2f} with the penalty"
    ) in page


def test_resnet_without_momentum_in_the_last_30_epochs_is_as_on_the_page(results, page):
    (part,) = results["resnet34-overdamped"].parts
    assert part.methods == ["SGD", "o-CoLod"]
    last = {key: part.arrays[key][-30:, :, 0].T.astype(float) for key in ("test_accuracy", "test_loss")}
    sgd, ours = (
        (f"{100 * accuracy.mean():.1f} ± {100 * accuracy.std(ddof=1):.1f}",
         f"{loss.mean():.3f} ± {loss.std(ddof=1):.3f}")
        for accuracy, loss in zip(last["test_accuracy"], last["test_loss"], strict=True)
    )  # fmt: skip
    assert f"o-CoLod has {ours[0]} % and {ours[1]}, SGD {sgd[0]} and {sgd[1]}" in page


def test_the_tables_of_claims_are_those_of_the_results():
    text = claims.PAGE.read_text(encoding="utf-8")
    assert text == claims.rendered(text), "run python docs/claims.py"


def test_a_changed_verdict_is_noticed():
    text = claims.PAGE.read_text(encoding="utf-8")
    changed = text.replace("| holds |", "| does not hold |", 1)
    assert changed != text
    assert claims.rendered(changed) == text
