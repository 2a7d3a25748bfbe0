r"""Geweke's joint test on every manifold (Geweke 2004), with a skewed posterior.

Weights start from the uniform law. A round draws the counts y given w, then takes steps given y. The pair
(w, y) keeps its joint law if, and only if, the sampler has the right posterior. So Pearson's statistic of y
given w averages to the number of counts, and w stays uniform. Chains are independent, and each gives one
number: the false-alarm rate of every assertion is 1e-6.
"""

import pytest
import torch

from tests.statistical.calibration import CASES, Model, geweke, spread
from tests.statistical.sampling import Run
from tests.statistics import assert_mean

ROUNDS = 12
RUNS = {
    "circle": Run(h=0.14, burn=0, steps=8, replicas=40_000, gamma=1.5),
    "sphere": Run(h=0.14, burn=0, steps=8, replicas=40_000, gamma=1.5),
    "ball": Run(h=0.14, burn=0, steps=8, replicas=40_000, gamma=1.5),
    "frames": Run(h=0.14, burn=0, steps=8, replicas=20_000, gamma=1.5),
}
# of the uniform law: E w_k^2 = 1/2 on the circle, 1/3 on the sphere, with slack and for frames of 3 x 2
SECOND = {"circle": 1 / 2, "sphere": 1 / 3, "ball": 1 / 3, "frames": 1 / 3}


def assert_spread_is_uniform(name: str, w: torch.Tensor) -> None:
    n = w[0].numel()
    assert_mean(spread(w), SECOND[name] * n * (n + 1) / 2, resolution=0.08)


def assert_joint_law_is_kept(name: str) -> None:
    w, y = geweke(CASES[name], "BAOAB", RUNS[name], ROUNDS)
    model = Model(CASES[name].shape)
    assert_mean(model.misfit(w, y), model.OBSERVED, resolution=0.15)
    assert_spread_is_uniform(name, w)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_the_joint_law_is_kept(name: str) -> None:
    assert_joint_law_is_kept(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_power_against_a_wrong_sign(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient that points the other way."""
    right = Model.gradient
    monkeypatch.setattr(Model, "gradient", lambda self, w, y: -right(self, w, y))
    with pytest.raises(AssertionError, match="biased"):
        assert_joint_law_is_kept(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.usefixtures("noise_10_percent_too_large")
def test_power_against_noise(name: str) -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_joint_law_is_kept(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_power_against_another_measure(name: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(AssertionError, match="biased"):
        assert_spread_is_uniform(name, CASES[name].wrong(RUNS[name].replicas))
