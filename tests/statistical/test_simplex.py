r"""Simplex: Dirichlet(1/2) at V = 0, and e^{-a.w/tau} times that under V = a.w, by quadrature."""

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

import colangevin as cl
from colangevin.constraints.simplex import Simplices
from tests.statistical.sampling import Run, chain_means, tempering
from tests.statistics import assert_law, assert_mean

TAU = 0.3
SLOPES = torch.tensor([-0.6, 0.0, 0.9], dtype=torch.float64)  # of V; over tau they are -2, 0 and 3

# Without potential every step commutes with rotations of the roots, so Dirichlet(1/2) is exact at any step
# size. The slowest mode that squares see decays at the rate 2 n tau = 2.4 overdamped and about gamma/2 for
# the splittings: time 30 leaves less than 1e-6.
UNIFORM = {
    "overdamped": Run(h=0.1, burn=300, steps=100, replicas=4, each=1024),
    "OBA": Run(h=0.5, burn=60, steps=100, replicas=4, each=1024),
    "BAOAB": Run(h=0.5, burn=60, steps=100, replicas=4, each=1024),
}
SKEWED = {
    "overdamped": Run(h=0.01, burn=400, steps=1500, replicas=4, each=512),
    "OBA": Run(h=0.05, burn=160, steps=800, replicas=4, each=512),
    "BOA": Run(h=0.05, burn=160, steps=800, replicas=4, each=512),
    "BAOAB": Run(h=0.2, burn=40, steps=400, replicas=4, each=512),
}
ENTRIES = 4


def skewed_mean(tau: float) -> Tensor:
    """E w under e^{-V/tau} dirichlet(1/2), w = x^2 on the unit sphere, by the midpoint rule in z and phi."""
    points = 2000
    z = (torch.arange(points, dtype=torch.float64) + 0.5) / points
    phi = (torch.arange(points, dtype=torch.float64) + 0.5) * (math.pi / 2 / points)
    flat = 1 - z.square().unsqueeze(1)
    w = torch.stack(
        (flat * phi.cos().square(), flat * phi.sin().square(), z.square().unsqueeze(1).expand(points, points))
    )
    density = torch.exp(-(SLOPES.view(3, 1, 1) * w).sum(0) / tau)
    return (w * density).sum((1, 2)) / density.sum()


def uniform_means(scheme: str) -> tuple[Tensor, Tensor, Tensor]:
    """Chain means of weights and of their squares at V = 0, and the end points."""
    run = UNIFORM[scheme]
    weight = torch.full((run.replicas, run.each, ENTRIES), 1 / ENTRIES, dtype=torch.float64)
    means = chain_means(
        scheme,
        weight,
        cl.Simplex(),
        TAU,
        run,
        gradient=torch.zeros_like,
        observe=lambda w: torch.stack((w, w.square())),
    )
    return means[0].flatten(0, 1), means[1].flatten(0, 1), weight.flatten(0, 1)


def assert_dirichlet(scheme: str) -> None:
    """E w = 1/n, E w^2 = 3/(n (n + 2)), w is Beta(1/2, (n - 1)/2); 4,096 chains, no bias."""
    n = ENTRIES
    first, second, ends = uniform_means(scheme)
    assert_mean(first, 1 / n, resolution=0.01)
    assert_mean(second, 3 / (n * (n + 2)), resolution=0.01)
    for column in ends.unbind(1):
        assert_law(column, stats.beta(1 / 2, (n - 1) / 2).cdf, resolution=0.045)


def budget(scheme: str, h: float) -> float:
    """Bias of a mean.

    Overdamped: 0.2 h, twice what 65,536 chains show at h = 0.04. OBA and BOA: what the temperature of the
    splitting does, 1.2 times. BAOAB is of second order: 0.02 h^2, twice what as many chains show at h = 0.5.
    """
    if scheme == "overdamped":
        return 0.2 * h
    if scheme == "BAOAB":
        return 0.02 * h**2
    off = skewed_mean(TAU * tempering(scheme, h, gamma=1.0)) - skewed_mean(TAU)
    return 1.2 * float(off.abs().max())


def assert_skewed(scheme: str) -> None:
    run = SKEWED[scheme]
    weight = torch.full((run.replicas, run.each, 3), 1 / 3, dtype=torch.float64)
    means = chain_means(
        scheme,
        weight,
        cl.Simplex(),
        TAU,
        run,
        gradient=lambda w: SLOPES.expand_as(w),
        observe=torch.clone,
    ).flatten(0, 1)
    for column, exact in zip(means.unbind(1), skewed_mean(TAU).tolist(), strict=True):
        assert_mean(column, exact, bias=budget(scheme, run.h), resolution=0.03)


@pytest.mark.parametrize("scheme", UNIFORM)
def test_rows_without_a_loss_are_dirichlet(scheme: str) -> None:
    assert_dirichlet(scheme)


@pytest.mark.parametrize("scheme", SKEWED)
def test_a_linear_loss_has_the_means_of_the_quadrature(scheme: str) -> None:
    """Standard error below 0.004 from 2,048 chains; first-order bias at most 0.01."""
    assert_skewed(scheme)


def test_drawn_rows_are_dirichlet() -> None:
    torch.manual_seed(0)
    weight = cl.Simplex().init_(torch.empty(20_000, ENTRIES, dtype=torch.float64), init="draw")
    for column in weight.unbind(1):
        assert_law(column, stats.beta(1 / 2, (ENTRIES - 1) / 2).cdf, resolution=0.025)


@pytest.mark.usefixtures("noise_10_percent_too_large")
@pytest.mark.parametrize("scheme", ["overdamped", "BAOAB"])
def test_power_against_noise_10_percent_too_large(scheme: str) -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_skewed(scheme)


@pytest.mark.usefixtures("plainly")
@pytest.mark.parametrize("scheme", ["overdamped", "BAOAB"])
def test_power_against_the_gradient_of_weights_taken_for_that_of_roots(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Simplices, "covector", lambda self, q, grad: grad)
    with pytest.raises(AssertionError, match="biased"):
        assert_skewed(scheme)


@pytest.mark.usefixtures("plainly")
def test_power_against_roots_of_one_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Roots that are not let through 0: the law near the edges is another."""
    kept = Simplices.project
    monkeypatch.setattr(Simplices, "project", lambda self, q, q_bar: kept(self, q, q_bar.clamp_min(0)))
    with pytest.raises(AssertionError, match=r"biased|wrong law"):
        assert_dirichlet("overdamped")
