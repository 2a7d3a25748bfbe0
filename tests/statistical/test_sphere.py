r"""Sphere: von Mises-Fisher under V = -k.x on S^2 without slack, uniform with slack and no potential."""

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

import colangevin as cl
from tests.statistical.quadrature import sphere_overdamped_mean
from tests.statistical.sampling import SCHEMES, SPLITTINGS, Run, chain_means, tempering
from tests.statistics import assert_law, assert_mean

RADIUS, TAU, KAPPA = 0.7, 0.3, 2.0
DIRECTION = torch.tensor([1.0, -2.0, 2.0], dtype=torch.float64) / 3

# Correlation times are 0.5 (overdamped) and 1 (splittings, gamma = 1): a burn-in of time 8 leaves e^-8 of a
# start that is 0.9 off. Kept is time 20 (overdamped), 40 (OBA, BOA) or 60; in such averages that is 1e-5.
FAST = {
    "overdamped": Run(h=0.02, burn=400, steps=1000, replicas=4, each=512),
    "OBA": Run(h=0.05, burn=160, steps=800, replicas=4, each=512),
    "BOA": Run(h=0.05, burn=160, steps=800, replicas=4, each=512),
    "BAOAB": Run(h=0.2, burn=40, steps=300, replicas=4, each=512),
}
SLOW = {
    "overdamped": Run(h=0.02, burn=500, steps=2500, replicas=4, each=8192, seed=1),
    "OBA": Run(h=0.1, burn=100, steps=1500, replicas=4, each=4096, seed=1),
    "BOA": Run(h=0.1, burn=100, steps=1500, replicas=4, each=4096, seed=1),
    "BAOAB": Run(h=0.2, burn=50, steps=1500, replicas=4, each=4096, seed=1),
}
# Without potential every step commutes with rotations, so the uniform law is exact at any step size. The
# slowest mode decays at the rate 3 tau/r^2 = 1.8 overdamped and about gamma/2 for the splittings: time 30
# leaves less than 1e-6. (BOA is OBA when there is nothing to kick.)
UNIFORM = {
    "overdamped": Run(h=0.1, burn=300, steps=100, replicas=4, each=1024),
    "OBA": Run(h=0.5, burn=60, steps=100, replicas=4, each=1024),
    "BAOAB": Run(h=0.5, burn=60, steps=100, replicas=4, each=1024),
}
COLUMNS = 3


def langevin_function(kappa: float) -> float:
    """The mean cosine to the direction of k."""
    return 1 / math.tanh(kappa) - 1 / kappa


def budget(scheme: str, h: float) -> float:
    """Bias of the mean cosine: by quadrature (overdamped), by the temperature of the splitting (OBA, BOA).

    BAOAB is of second order and its flow exact on the sphere; on the circle its constant is 3e-4.
    """
    if scheme == "overdamped":
        return 0.065 * h
    if scheme == "BAOAB":
        return 0.01 * h**2
    return 1.2 * abs(langevin_function(KAPPA / tempering(scheme, h, gamma=1.0)) - langevin_function(KAPPA))


def tilted_means(scheme: str, run: Run) -> Tensor:
    """Chain means of the cosine between row and k under V = -k.x."""
    weight = torch.zeros(run.replicas, run.each, COLUMNS, dtype=torch.float64)
    weight[..., 0] = -RADIUS
    k = KAPPA * TAU / RADIUS * DIRECTION
    means = chain_means(
        scheme,
        weight,
        cl.Sphere(RADIUS, slack=False),
        TAU,
        run,
        gradient=lambda x: -k.expand_as(x),
        observe=lambda x: x @ DIRECTION / RADIUS,
    )
    return means.flatten()


def uniform_means(scheme: str, run: Run) -> tuple[Tensor, Tensor, Tensor]:
    """Chain means of second and fourth powers of the entries of rows with slack, and the end points."""
    weight = torch.zeros(run.replicas, run.each, COLUMNS, dtype=torch.float64)
    weight[..., 0] = 0.5 * RADIUS
    means = chain_means(
        scheme,
        weight,
        cl.Sphere(RADIUS),
        TAU,
        run,
        gradient=torch.zeros_like,
        observe=lambda x: torch.stack(((x / RADIUS) ** 2, (x / RADIUS) ** 4)),
    )
    return means[0].flatten(0, 1), means[1].flatten(0, 1), weight.flatten(0, 1) / RADIUS


def assert_von_mises_fisher(scheme: str) -> None:
    """Standard error below 0.003 from 2,048 chains; first-order bias at most 0.011 (OBA and BOA)."""
    run = FAST[scheme]
    means = tilted_means(scheme, run)
    assert_mean(means, langevin_function(KAPPA), bias=budget(scheme, run.h), resolution=0.025)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tilted_sphere_is_von_mises_fisher(scheme: str) -> None:
    assert_von_mises_fisher(scheme)


@pytest.mark.parametrize("scheme", UNIFORM)
def test_rows_with_slack_are_uniform_on_the_sphere_one_dimension_up(scheme: str) -> None:
    """E x_i^2 = 1/(n + 1), E x_i^4 = 3/((n + 1)(n + 3)), x_i^2 Beta(1/2, n/2); 4,096 chains, no bias."""
    second, fourth, ends = uniform_means(scheme, UNIFORM[scheme])
    n = COLUMNS
    assert_mean(second, 1 / (n + 1), resolution=0.01)
    assert_mean(fourth, 3 / ((n + 1) * (n + 3)), resolution=0.01)
    for column in ends.unbind(1):
        assert_law(column.square(), stats.beta(1 / 2, n / 2).cdf, resolution=0.045)


def test_budget_covers_the_overdamped_bias() -> None:
    h = FAST["overdamped"].h
    mean = sphere_overdamped_mean(RADIUS, KAPPA * TAU / RADIUS, TAU, h)
    assert abs(mean - langevin_function(KAPPA)) <= budget("overdamped", h)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SPLITTINGS)
def test_tilted_sphere_is_von_mises_fisher_at_the_temperature_of_the_splitting(scheme: str) -> None:
    """To 0.004, from 16,384 chains: at h = 0.1 OBA and BOA sample tau (1 -+ 0.05), up to 0.1 h^2 = 0.001."""
    run = SLOW[scheme]
    kappa = KAPPA / tempering(scheme, run.h, run.gamma)
    bias = 0.1 * run.h**2 if scheme != "BAOAB" else budget(scheme, run.h)
    assert_mean(tilted_means(scheme, run), langevin_function(kappa), bias=bias, resolution=0.004)


@pytest.mark.slow
def test_tilted_sphere_is_von_mises_fisher_overdamped() -> None:
    """To 0.004, from 32,768 chains: bias 0.065 h = 0.0013."""
    run = SLOW["overdamped"]
    means = tilted_means("overdamped", run)
    assert_mean(means, langevin_function(KAPPA), bias=budget("overdamped", run.h), resolution=0.004)


@pytest.mark.usefixtures("noise_10_percent_too_large")
@pytest.mark.parametrize("scheme", ["overdamped", "BAOAB"])
def test_power_against_noise_10_percent_too_large(scheme: str) -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_von_mises_fisher(scheme)
