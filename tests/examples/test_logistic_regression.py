"""The posterior on a sphere: against quadrature in small form, against mici in full."""

import pytest
import torch

from examples import logistic_regression as example
from tests.statistics import RATE, assert_mean

# BAOAB at h = 0.4, where h^2 V'' is below 0.05: the second-order bias of means is below 0.01.
BIAS = 0.01


def chain_means(steps: int) -> torch.Tensor:
    x, y = example.data(3)
    return example.draws(example.sample(x, y, chains=64, steps=steps)).mean(1)


def assert_quadrature(steps: int) -> None:
    means, exact = chain_means(steps), example.quadrature(*example.data(3))
    for column, value in zip(means.unbind(1), exact.tolist(), strict=True):
        assert_mean(column, value, bias=BIAS, resolution=0.15, rate=RATE / len(exact))


def test_means_are_those_of_the_quadrature() -> None:
    assert_quadrature(600)


@pytest.mark.usefixtures("temperature_of_a_sum")
def test_power_against_the_temperature_of_a_summed_loss() -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_quadrature(600)


@pytest.fixture
def temperature_of_a_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual mistake: a mean loss sampled at temperature 1."""
    monkeypatch.setattr("colangevin.posterior_temperature", lambda data: 1.0)


def test_quadrature_is_converged_and_centred() -> None:
    """Without data the direction is uniform and the bias has its prior."""
    assert example.quadrature(torch.zeros(0, 3).double(), torch.zeros(0).double()).abs().max() < 1e-12


def test_the_script_runs(capsys: pytest.CaptureFixture[str]) -> None:
    example.main(["--steps", "60", "--chains", "4", "--iterations", "20"])
    output = capsys.readouterr().out
    for word in ("posterior means", "quadrature", "mici", "Sphere(radius=3, slack=False)"):
        assert word in output


@pytest.mark.slow
@pytest.mark.parametrize("features", [3, 6])
def test_means_agree_with_mici(features: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Within 3 standard errors for every coordinate: false alarms 0.3 % each, 2 % for the six features."""
    x, y = example.data(features)
    ours = example.moments(example.draws(example.sample(x, y, chains=32, steps=5000)))
    theirs = example.moments(example.hamiltonian(x, y, chains=4, iterations=2000))
    with capsys.disabled():
        example.show(ours, theirs, None)
    assert float(ours.error.max()) < 0.02
    assert float(theirs.error.max()) < 0.02
    assert bool(((ours.mean - theirs.mean).abs() <= 3 * torch.hypot(ours.error, theirs.error)).all())
