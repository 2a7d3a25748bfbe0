from pathlib import Path

import pytest

from colangevin.experiments.report.headline import headline
from colangevin.experiments.report.results import load

STORED = Path(__file__).parents[3] / "results"


@pytest.fixture(scope="module")
def stored():
    return load(STORED)


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
