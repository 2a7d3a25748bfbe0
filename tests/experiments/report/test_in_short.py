from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from colangevin.experiments.catalogue.claims import Claim
from colangevin.experiments.judging.verdicts import Finding
from colangevin.experiments.report.in_short import headline, in_short
from colangevin.experiments.report.results import load
from tests.experiments.tiny import experiment

STORED = Path(__file__).parents[3] / "results"


def finding(text, verdict, ours=2.0, theirs=1.0, part=None, runs=6):
    claim = Claim("Figure 4", text, "test accuracy", "new", ("old",), "higher", part=part)
    return Finding(claim, "old", ours, theirs, ours - theirs, 0.0, 0.0, runs, verdict)


def result(name, *findings, parts=1):
    what = replace(experiment(parts, named="{} layers"), name=name, title=f"title of {name}")
    return SimpleNamespace(experiment=what, findings=list(findings))


def test_a_group_has_the_first_claim_of_each_verdict():
    results = [
        result("two-turn", finding("A.", "undecided"), finding("B.", "holds"), finding("C.", "holds")),
        result("two-turn-radius", finding("D.", "does not hold"), finding("E.", "undecided")),
        result("four-turn", finding("F.", "holds")),
    ]
    rows = in_short(results)
    assert [(row.group, row.experiment, row.verdict, row.claim) for row in rows] == [
        ("title of two-turn", "two-turn", "holds", "B."),
        ("title of two-turn", "two-turn-radius", "does not hold", "D."),
        ("title of two-turn", "two-turn", "undecided", "A."),
        ("title of four-turn", "four-turn", "holds", "F."),
    ]
    assert rows[0].numbers == "test accuracy 2.00 % (new) against 1.00 % (old), 6 runs"
    assert rows[0].settings == rows[0].why == ""


def test_settings_with_the_same_verdict_are_one_row():
    findings = [
        finding("More, 1 layers.", "undecided", 3, 2, "1 layers"),
        finding("More, 2 layers.", "holds", 4, 2, "2 layers"),
        finding("More, 3 layers.", "holds", 6, 1, "3 layers"),
    ]
    holds, undecided = in_short([result("four-turn", *findings, parts=3)])
    assert (holds.claim, holds.settings) == ("More.", "2 and 3 layers")
    assert holds.numbers == "test accuracy 4.00 to 6.00 % (new) against 1.00 to 2.00 % (old), 6 runs"
    assert undecided.settings == "1 layers"


def test_too_few_runs_are_said_to_be_the_reason():
    few, enough = finding("A.", "undecided", runs=1), finding("A.", "undecided", runs=9)
    assert in_short([result("two-turn", few)])[0].why == "fewer than 5 runs"
    assert in_short([result("two-turn", few)])[0].numbers.endswith(", 1 run")
    assert in_short([result("two-turn", enough)])[0].why == ""


def test_without_claims_there_is_nothing_to_say():
    assert in_short([result("two-turn")]) == []


@pytest.fixture(scope="module")
def stored():
    return load(STORED)


def test_of_the_stored_results_it_is_a_screen_and_names_every_group(stored):
    rows = in_short(stored)
    assert len({row.group for row in rows}) == 5
    assert len(rows) <= 15
    claims = {finding.claim.text for result in stored for finding in result.findings}
    for row in rows:
        assert any(text.startswith(row.claim.removesuffix(".")) for text in claims)


def test_plots_of_the_stored_results_open_on_what_the_claims_are_about(stored):
    opened = {}
    for each in stored:
        methods = each.parts[0].methods
        names = methods[each.subject.baseline], methods[each.subject.method]
        opened[each.experiment.name] = (each.best_picture, each.parts[each.subject.part].part.name, *names)
    assert opened["two-turn"] == ("boundaries", "2-turn spiral", "SGD", "C-SGLD τ=5e-5")
    assert opened["two-turn-radius"][0] == "gradients"
    assert opened["four-turn"] == ("parts", "4 hidden layers", "SGD", "o-CoLod")
    assert opened["fashion-mnist"] == ("curves", "Fashion-MNIST", "SGD-m 0.1, 0.8", "c-CoLud")
    assert opened["fashion-mnist-grid"][0] == "runs"
    assert opened["resnet34-time"] == ("runs", "CIFAR-10", "SGD-m", "o-CoLud")
    assert opened["resnet34-penalty"][0] == "curves"  # it has no claim


def test_an_experiment_in_two_lines_has_the_claims_method_beside_its_baselines(stored):
    by_name = {each.experiment.name: each for each in stored}
    title, numbers = headline(by_name["four-turn"]).splitlines()
    assert title == "4-turn spiral: orthogonal weights in deep perceptrons, 4 hidden layers"
    assert numbers == (
        "    test accuracy: 98.49 ± 0.88 % with o-CoLod; 78.41 ± 21.72 % with SGD; "
        "96.84 ± 4.96 % with SGD, penalty λ=0.05 (10 runs, 2,000 epochs)"
    )
    assert headline(by_name["two-turn"]).startswith("2-turn spiral: bounded weights and noise\n")
    assert headline(by_name["resnet34"]).endswith("(1 run, 150 epochs)")
    assert headline(by_name["resnet34-penalty"])  # without a claim
