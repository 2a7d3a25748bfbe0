r"""Geweke's joint test on every manifold (Geweke 2004), with a skewed posterior.

Weights start from the prior. A round draws the counts y given w, then takes steps given y. The pair (w, y)
keeps its joint law if, and only if, the sampler has the right posterior. So Pearson's statistic of y given w
averages to the number of counts, and w keeps the second moments of the prior. Chains are independent, and
each gives one number: the false-alarm rate of every assertion is 1e-6.
"""

import pytest
import torch

import colangevin as cl
from tests.statistical.calibration import Model, geweke, spread
from tests.statistical.priors import CASES
from tests.statistical.sampling import Run
from tests.statistics import assert_mean

ROUNDS = 12
#: chains of every case; a step costs most where there are fewest
CHAINS = {"circle": 40_000, "sphere": 40_000, "ball": 40_000, "implicit": 10_000}
RUNS = {name: Run(h=0.14, burn=0, steps=8, replicas=CHAINS.get(name, 20_000), gamma=1.5) for name in CASES}
#: largest tolerance of the spread where entries have no bound
RESOLUTION = {"sum": 0.2, "equation": 0.2, "symmetric": 0.3, "nonnegative": 0.4}


def assert_spread_is_that_of_the_prior(name: str, w: torch.Tensor) -> None:
    assert_mean(spread(w), CASES[name].spread, resolution=RESOLUTION.get(name, 0.08))


def assert_joint_law_is_kept(name: str) -> None:
    w, y = geweke(CASES[name], "BAOAB", RUNS[name], ROUNDS)
    model = Model(CASES[name])
    assert_spread_is_that_of_the_prior(name, w)
    assert_mean(model.misfit(w, y), model.OBSERVED, resolution=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_the_joint_law_is_kept(name: str) -> None:
    assert_joint_law_is_kept(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_power_against_a_wrong_sign(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient that points the other way, but for the prior's, which bounds the chains."""
    right = Model.gradient

    def wrong(model: Model, w: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        prior = model.prior(w)
        return 2 * prior - right(model, w, y)

    monkeypatch.setattr(Model, "gradient", wrong)
    # weights without a bound run away
    with pytest.raises((AssertionError, cl.NonFiniteError), match=r"biased|holds NaN or Inf"):
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
        assert_spread_is_that_of_the_prior(name, CASES[name].wrong(RUNS[name].replicas))
