r"""Free: the harmonic oscillator V = k q^2/2, whose discrete laws are known exactly at any step size."""

import math

import pytest
import torch
from torch import Tensor

import colangevin as cl
from tests.statistical.sampling import SCHEMES, Run, chain_means
from tests.statistics import assert_mean

STIFFNESS, TAU = 2.0, 0.5

# Step sizes so large that discrete laws are far from tau/k: OBA is off by 8 %, BOA 22 %, Euler-Maruyama 43 %.
FAST = {
    "overdamped": Run(h=0.3, burn=60, steps=300, replicas=8, each=1024),
    "OBA": Run(h=0.3, burn=150, steps=300, replicas=8, each=1024),
    "BOA": Run(h=0.3, burn=150, steps=300, replicas=8, each=1024),
    "BAOAB": Run(h=0.5, burn=100, steps=300, replicas=8, each=1024),
}
SLOW = {
    scheme: Run(h=run.h, burn=run.burn, steps=3000, replicas=8, each=8192, seed=1)
    for scheme, run in FAST.items()
}


def variance(scheme: str, run: Run) -> float:
    """The variance of the position in the discrete law; ``test_weak_order.py`` derives it from the step."""
    k, h, c = STIFFNESS, run.h, math.exp(-run.gamma * run.h)
    if scheme == "overdamped":
        return TAU / (k * (1 - h * k / 2))
    if scheme == "BAOAB":
        return TAU / k
    if scheme == "BOA":
        k = c * k  # its positions are those of OBA under c V
    return TAU / k * (1 + c) / 2 / (1 - h**2 * k / (2 * (1 + c)))


def oscillator_means(scheme: str, run: Run) -> Tensor:
    """Chain means of q^2 from q = 1."""
    weight = torch.ones(run.replicas, run.each, dtype=torch.float64)
    return chain_means(
        scheme,
        weight,
        cl.Free(),
        TAU,
        run,
        gradient=lambda q: STIFFNESS * q,
        observe=torch.square,
    ).flatten()


def assert_oscillator(scheme: str, run: Run, *, resolution: float) -> None:
    """No bias: the exact value is that of the discrete law."""
    exact = variance(scheme, run)
    assert_mean(oscillator_means(scheme, run), exact, resolution=resolution * exact)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_oscillator_has_its_discrete_law(scheme: str) -> None:
    """To 1 % of the variance, from 8,192 chains."""
    assert_oscillator(scheme, FAST[scheme], resolution=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_oscillator_has_its_discrete_law_to_a_thousandth(scheme: str) -> None:
    assert_oscillator(scheme, SLOW[scheme], resolution=0.0015)


@pytest.mark.usefixtures("noise_10_percent_too_large")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_power_against_noise_10_percent_too_large(scheme: str) -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_oscillator(scheme, FAST[scheme], resolution=0.02)
