r"""Circle: von Mises under a tilt V = a theta, arcsine without.

theta = -r cos(alpha), where alpha has density exp(kappa cos(alpha)), kappa = a r / tau.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import Tensor

import colangevin as cl
from tests.statistical.quadrature import circle, overdamped_mean, underdamped_mean
from tests.statistical.sampling import SCHEMES, SPLITTINGS, Run, chain_means, tempering
from tests.statistics import assert_law, assert_mean

RADIUS, TAU, KAPPA = 0.7, 0.3, 2.0
TILT = KAPPA * TAU / RADIUS

# Correlation times are 0.8 (overdamped) and 1.6 (splittings, gamma = 1): a burn-in of time 10 leaves e^-6 of
# a start that is 1.2 off. Kept is time 20 (overdamped) or 40; in such averages that is 1e-4.
FAST = {
    "overdamped": Run(h=0.02, burn=500, steps=1000, replicas=4, each=1024),
    "OBA": Run(h=0.05, burn=200, steps=800, replicas=8, each=1024),
    "BOA": Run(h=0.05, burn=200, steps=800, replicas=8, each=1024),
    "BAOAB": Run(h=0.2, burn=50, steps=200, replicas=8, each=1024),
}
# Kept: time 60 (overdamped) or 200, of eight times as many chains.
SLOW = {
    "overdamped": Run(h=0.02, burn=600, steps=3000, replicas=8, each=8192, seed=1),
    "OBA": Run(h=0.1, burn=120, steps=2000, replicas=8, each=8192, seed=1),
    "BOA": Run(h=0.1, burn=120, steps=2000, replicas=8, each=8192, seed=1),
    "BAOAB": Run(h=0.2, burn=60, steps=1000, replicas=8, each=8192, seed=1),
}
# Without tilt every step commutes with rotations of the circle, so the uniform law is exact at any step size;
# time 30 leaves e^(-30/1.6) = 1e-8 of the start. (BOA is OBA when there is nothing to kick.)
UNIFORM = {
    "overdamped": Run(h=0.1, burn=300, steps=100, replicas=8, each=2048),
    "OBA": Run(h=0.5, burn=60, steps=100, replicas=8, each=2048),
    "BAOAB": Run(h=0.5, burn=60, steps=100, replicas=8, each=2048),
}


def von_mises(kappa: float) -> float:
    """The mean of theta / r."""
    return -float(special.i1(kappa) / special.i0(kappa))


def budget(scheme: str, h: float) -> float:
    """Bias of the mean of theta / r for one step size; test_budget_covers_the_bias checks it."""
    if scheme == "overdamped":
        return 0.06 * h
    if scheme == "BAOAB":
        return 0.001 * h**2
    return 1.2 * abs(von_mises(KAPPA / tempering(scheme, h, gamma=1.0)) - von_mises(KAPPA))


def tilted_means(scheme: str, run: Run) -> tuple[Tensor, Tensor]:
    """Chain means and end points of theta / r under V = a theta."""
    weight = torch.full((run.replicas, run.each), 0.5 * RADIUS, dtype=torch.float64)
    means = chain_means(
        scheme,
        weight,
        cl.Circle(RADIUS),
        TAU,
        run,
        gradient=lambda theta: torch.full_like(theta, TILT),
        observe=lambda theta: theta / RADIUS,
    )
    return means.flatten(), weight.flatten() / RADIUS


def uniform_means(scheme: str, run: Run) -> tuple[Tensor, Tensor, Tensor]:
    """Chain means of the second and fourth power of theta / r, and its end points, without potential."""
    weight = torch.full((run.replicas, run.each), 0.5 * RADIUS, dtype=torch.float64)
    means = chain_means(
        scheme,
        weight,
        cl.Circle(RADIUS),
        TAU,
        run,
        gradient=torch.zeros_like,
        observe=lambda theta: torch.stack(((theta / RADIUS) ** 2, (theta / RADIUS) ** 4)),
    )
    return means[0].flatten(), means[1].flatten(), weight.flatten() / RADIUS


def tilted_cdf(kappa: float) -> Callable[[np.ndarray], np.ndarray]:
    """P(theta / r <= x) = P(|alpha| <= arccos(-x)); the arcsine law for kappa = 0."""
    if kappa == 0:
        return lambda x: np.arccos(-x) / np.pi
    return lambda x: 2 * stats.vonmises.cdf(np.arccos(-x), kappa) - 1


def assert_von_mises(scheme: str) -> None:
    """Standard error below 0.002 from 4,096 or 8,192 chains; first-order bias at most 0.011 (OBA and BOA)."""
    run = FAST[scheme]
    means, _ = tilted_means(scheme, run)
    assert_mean(means, von_mises(KAPPA), bias=budget(scheme, run.h), resolution=0.02)


def assert_arcsine(scheme: str) -> None:
    """Moments to 0.01 and the whole law to 0.021 in distribution, from 16,384 chains; no bias."""
    second, fourth, ends = uniform_means(scheme, UNIFORM[scheme])
    assert_mean(second, 1 / 2, resolution=0.01)
    assert_mean(fourth, 3 / 8, resolution=0.01)
    assert_law(ends, tilted_cdf(0), resolution=0.022)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tilted_circle_is_von_mises(scheme: str) -> None:
    assert_von_mises(scheme)


@pytest.mark.parametrize("scheme", UNIFORM)
def test_circle_without_potential_is_arcsine(scheme: str) -> None:
    assert_arcsine(scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_budget_covers_the_bias(scheme: str) -> None:
    chart = circle(RADIUS, TILT, TAU)
    for run in (FAST[scheme], SLOW[scheme]):
        if scheme == "overdamped":
            mean = overdamped_mean(chart, run.h)
        else:
            mean = underdamped_mean(chart, scheme, run.h, run.gamma)
        assert abs(mean - von_mises(KAPPA)) <= budget(scheme, run.h)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SPLITTINGS)
def test_tilted_circle_is_von_mises_at_the_temperature_of_the_splitting(scheme: str) -> None:
    """To 0.003, from 65,536 chains: at h = 0.1 OBA and BOA sample tau (1 -+ 0.05), up to 0.1 h^2 = 0.001."""
    run = SLOW[scheme]
    means, ends = tilted_means(scheme, run)
    kappa = KAPPA / tempering(scheme, run.h, run.gamma)
    bias = 0.1 * run.h**2 if scheme != "BAOAB" else budget(scheme, run.h)
    assert_mean(means, von_mises(kappa), bias=bias, resolution=0.003)
    assert_law(ends, tilted_cdf(kappa), bias=bias, resolution=0.013)


@pytest.mark.slow
def test_tilted_circle_is_von_mises_overdamped() -> None:
    """To 0.004, from 65,536 chains: bias 0.06 h = 0.0012."""
    run = SLOW["overdamped"]
    means, ends = tilted_means("overdamped", run)
    assert_mean(means, von_mises(KAPPA), bias=budget("overdamped", run.h), resolution=0.004)
    assert_law(ends, tilted_cdf(KAPPA), bias=budget("overdamped", run.h), resolution=0.013)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["overdamped", "BAOAB"])
def test_half_a_million_weights_are_arcsine(scheme: str) -> None:
    """Moments to 0.001 and the law to 0.004 in distribution; no bias."""
    run = Run(h=0.1 if scheme == "overdamped" else 0.5, burn=300, steps=100, replicas=8, each=1 << 16, seed=1)
    second, fourth, ends = uniform_means(scheme, run)
    assert_mean(second, 1 / 2, resolution=0.002)
    assert_mean(fourth, 3 / 8, resolution=0.002)
    assert_law(ends, tilted_cdf(0), resolution=0.004)


@pytest.mark.usefixtures("noise_10_percent_too_large")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_power_against_noise_10_percent_too_large(scheme: str) -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_von_mises(scheme)


@pytest.mark.usefixtures("arctan_for_atan2")
@pytest.mark.parametrize("check", [assert_von_mises, assert_arcsine])
def test_power_against_arctan_for_atan2(check: Callable[[str], None]) -> None:
    with pytest.raises(AssertionError, match=r"biased|wrong law"):
        check("overdamped")
