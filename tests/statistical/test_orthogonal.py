r"""Orthogonality: von Mises angles on SO(2), Haar moments on the Stiefel manifold."""

import pytest
import torch
from scipy import special
from torch import Tensor

import colangevin as cl
from tests.statistical.quadrature import overdamped_mean, rotations, underdamped_mean
from tests.statistical.sampling import SCHEMES, SPLITTINGS, Run, chain_means, tempering
from tests.statistics import assert_mean

TAU, K = 1.0, 3.0  # V(Q) = -tau (3/2) tr Q, so the log-density is 3 cos(angle)

# The angle relaxes at a rate above k tau/2 = 1.5 overdamped: time 4 leaves 3e-3 of a start at the mode, where
# cos = 1 and the mean is 0.81: 6e-4, before averaging over time 5 (15 to 20 for the splittings, which forget
# at rate 1). Overdamped noise is sqrt(2 tau h) = 0.16 an entry: determinants change sign beyond 6 of those.
FAST = {
    "overdamped": Run(h=0.0125, burn=320, steps=400, replicas=1000),
    "OBA": Run(h=0.05, burn=120, steps=300, replicas=800),
    "BOA": Run(h=0.05, burn=120, steps=300, replicas=800),
    "BAOAB": Run(h=0.1, burn=60, steps=200, replicas=500),
}
SLOW = {
    "overdamped": Run(h=0.0125, burn=400, steps=5000, replicas=1000, seed=1),
    "OBA": Run(h=0.05, burn=160, steps=6000, replicas=1000, seed=1),
    "BOA": Run(h=0.05, burn=160, steps=6000, replicas=1000, seed=1),
    "BAOAB": Run(h=0.1, burn=80, steps=4000, replicas=1000, seed=1),
}
# Without potential every step commutes with rotations from the left, so Haar measure is exact at any step
# size. Entries decay at the rate tau (r - (s + 1)/2) = 3 overdamped, even powers faster: time 7.5 leaves
# e^-22; the splittings forget at a rate near 1 and have time 15. (BOA is OBA when there is nothing to kick.)
HAAR_FAST = {
    "overdamped": Run(h=0.05, burn=150, steps=100, replicas=400),
    "BAOAB": Run(h=0.2, burn=80, steps=100, replicas=400),
}
HAAR_SLOW = {
    "overdamped": Run(h=0.05, burn=200, steps=1500, replicas=1000, seed=1),
    "OBA": Run(h=0.1, burn=150, steps=1500, replicas=1000, seed=1),
    "BAOAB": Run(h=0.2, burn=100, steps=1500, replicas=1000, seed=1),
}


def von_mises(k: float) -> float:
    """The mean cosine; 0.8100 for k = 3."""
    return float(special.i1(k) / special.i0(k))


def budget(scheme: str, h: float) -> float:
    """Bias of the mean cosine for one step size; test_budget_covers_the_bias checks it."""
    if scheme == "overdamped":
        return 0.26 * h
    if scheme == "BAOAB":
        return 0.02 * h**2
    return 1.2 * abs(von_mises(K / tempering(scheme, h, gamma=1.0)) - von_mises(K))


def rotation_means(scheme: str, run: Run) -> Tensor:
    """Chain means of cos(angle) on SO(2), from the identity."""
    weight = torch.eye(2, dtype=torch.float64).repeat(run.replicas, 1, 1)
    means = chain_means(
        scheme,
        weight,
        cl.Orthogonal(),
        TAU,
        run,
        gradient=lambda Q: torch.eye(2, dtype=Q.dtype).expand_as(Q) * (-0.5 * K * TAU),
        observe=lambda Q: Q.diagonal(dim1=1, dim2=2).mean(1),
    )
    assert bool((torch.linalg.det(weight) > 0).all()), "a chain left SO(2)"
    return means


def haar_means(scheme: str, run: Run, shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Chain means of Q_ij^2 and Q_ij^4 of every entry, and of Q_11 Q_12 Q_21 Q_22."""
    weight = torch.eye(*shape, dtype=torch.float64).repeat(run.replicas, 1, 1)

    def observe(Q: Tensor) -> Tensor:
        minor = (Q[:, 0, 0] * Q[:, 0, 1] * Q[:, 1, 0] * Q[:, 1, 1]).unsqueeze(1)
        return torch.cat((Q.flatten(1) ** 2, Q.flatten(1) ** 4, minor), dim=1)

    means = chain_means(scheme, weight, cl.Orthogonal(), TAU, run, gradient=torch.zeros_like, observe=observe)
    entries = shape[0] * shape[1]
    return means[:, :entries], means[:, entries : 2 * entries], means[:, -1]


def assert_rotations_von_mises(scheme: str) -> None:
    """Standard error below 0.0045 from 500 to 1,000 chains; first-order bias at most 0.0075."""
    run = FAST[scheme]
    assert_mean(rotation_means(scheme, run), von_mises(K), bias=budget(scheme, run.h), resolution=0.03)


def assert_haar(scheme: str, run: Run, shape: tuple[int, int], *, resolution: float) -> None:
    """E Q_ij^2 = 1/r, E Q_ij^4 = 3/(r(r + 2)), E Q_11 Q_12 Q_21 Q_22 = -1/((r - 1) r (r + 2)); no bias."""
    r = max(shape)
    second, fourth, minor = haar_means(scheme, run, shape)
    assert_mean(second, 1 / r, resolution=resolution)
    assert_mean(fourth, 3 / (r * (r + 2)), resolution=resolution)
    assert_mean(minor, -1 / ((r - 1) * r * (r + 2)), resolution=resolution / 10)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tilted_rotations_have_von_mises_angles(scheme: str) -> None:
    assert_rotations_von_mises(scheme)


@pytest.mark.parametrize("scheme", HAAR_FAST)
def test_haar_moments_of_5_by_3(scheme: str) -> None:
    assert_haar(scheme, HAAR_FAST[scheme], (5, 3), resolution=0.02)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_budget_covers_the_bias(scheme: str) -> None:
    chart = rotations(K, TAU)
    for run in (FAST[scheme], SLOW[scheme]):
        if scheme == "overdamped":
            mean = overdamped_mean(chart, run.h)
        else:
            mean = underdamped_mean(chart, scheme, run.h, run.gamma)
        assert abs(mean - von_mises(K)) <= budget(scheme, run.h)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SPLITTINGS)
def test_tilted_rotations_are_von_mises_at_the_temperature_of_the_splitting(scheme: str) -> None:
    """To 0.005, from 1,000 chains: at h = 0.05 OBA and BOA sample tau (1 -+ 0.025), up to 0.2 h^2."""
    run = SLOW[scheme]
    k = K / tempering(scheme, run.h, run.gamma)
    bias = 0.2 * run.h**2 if scheme != "BAOAB" else budget(scheme, run.h)
    assert_mean(rotation_means(scheme, run), von_mises(k), bias=bias, resolution=0.005)


@pytest.mark.slow
def test_tilted_rotations_are_von_mises_overdamped() -> None:
    """To 0.01, from 1,000 chains: bias 0.26 h = 0.0033."""
    run = SLOW["overdamped"]
    means = rotation_means("overdamped", run)
    assert_mean(means, von_mises(K), bias=budget("overdamped", run.h), resolution=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", HAAR_SLOW)
def test_haar_moments_of_5_by_3_to_2_percent(scheme: str) -> None:
    """1,000 chains of time 75 (overdamped) to 300."""
    assert_haar(scheme, HAAR_SLOW[scheme], (5, 3), resolution=0.004)


@pytest.mark.usefixtures("noise_10_percent_too_large")
@pytest.mark.parametrize("scheme", [pytest.param("overdamped", marks=pytest.mark.slow), "BAOAB"])
def test_power_against_noise_10_percent_too_large(scheme: str) -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_rotations_von_mises(scheme)
