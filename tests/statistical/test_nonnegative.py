r"""NonNegative: under V = k w the root is an oscillator, and w has the Gamma law of shape 1/2."""

import pytest
import torch
from scipy import stats
from torch import Tensor

import colangevin as cl
from colangevin.constraints.nonnegative import Roots
from tests.statistical.sampling import SCHEMES, Run, chain_means
from tests.statistical.test_free import FAST, STIFFNESS, TAU, variance
from tests.statistics import assert_law, assert_mean


def weights(scheme: str, run: Run) -> tuple[Tensor, Tensor]:
    """Chain means of w from w = 1, and the end points.

    V = k xi^2 is an oscillator of stiffness 2 k, so that w = xi^2 has the mean that is the discrete variance
    of an oscillator, without bias, and w over this mean is chi-squared with one degree of freedom.
    """
    weight = torch.ones(run.replicas, run.each, dtype=torch.float64)
    means = chain_means(
        scheme,
        weight,
        cl.NonNegative(),
        TAU,
        run,
        gradient=lambda w: torch.full_like(w, STIFFNESS / 2),
        observe=torch.clone,
    )
    return means.flatten(), weight.flatten()


def assert_gamma(scheme: str) -> None:
    """The mean to 2 % and the distribution function to 0.03, from 8,192 chains."""
    exact = variance(scheme, FAST[scheme])
    means, ends = weights(scheme, FAST[scheme])
    assert_mean(means, exact, resolution=0.02 * exact)
    assert_law(ends, stats.gamma(0.5, scale=2 * exact).cdf, resolution=0.035)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_linear_loss_has_the_gamma_law(scheme: str) -> None:
    assert_gamma(scheme)


@pytest.mark.usefixtures("noise_10_percent_too_large")
@pytest.mark.parametrize("scheme", ["overdamped", "BAOAB"])
def test_power_against_noise_10_percent_too_large(scheme: str) -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_gamma(scheme)


@pytest.mark.usefixtures("plainly")
@pytest.mark.parametrize("scheme", ["overdamped", "BAOAB"])
def test_power_against_roots_that_stop_at_zero(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root that is not let through 0 piles up there."""
    monkeypatch.setattr(Roots, "project", lambda self, q, q_bar: q_bar.clamp_min(0))
    monkeypatch.setattr(Roots, "drift", lambda self, q, p, a: ((q + a * p).clamp_min(0), p))
    with pytest.raises(AssertionError, match="biased"):
        assert_gamma(scheme)
