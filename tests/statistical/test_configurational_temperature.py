r"""Configurational temperature of positions that have it, by the monitor, for every constraint.

Positions at equilibrium come from BAOAB, whose bias is of second order. Every copy is a chain of its own, so
the ratio of averages is tested as mean(work / tau - divergence) = 0 over chains, without autocorrelation.
"""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import colangevin as cl
from colangevin.diagnostics.monitor import Monitor
from tests.statistical.sampling import Run, optimizer, some_slowly
from tests.statistics import assert_mean

TAU = 0.3
CHAINS = 256

# The reference, half-way through the burn-in, is forgotten in time 10 at rates near 1. In units of tau the
# bias of BAOAB is below 0.002 for geodesics at h = 0.1 and below 0.006 for RATTLE, as the kinetic is.
GEODESIC = Run(h=0.1, burn=200, steps=250, replicas=CHAINS, gamma=2.0)


@dataclass(frozen=True)
class Case:
    """A constraint, a feasible start and the stiffness of V = k |w - start|^2 / 2."""

    constraint: cl.Constraint
    start: Tensor
    stiffness: float = 2.0
    run: Run = GEODESIC
    bias: float = 0.002


def rows(count: int, *entries: float) -> Tensor:
    return torch.tensor([entries], dtype=torch.float64).repeat(count, 1)


CASES = {
    "free": Case(cl.Free(), torch.zeros(12, dtype=torch.float64)),
    "circle": Case(cl.Circle(0.7), torch.full((12,), 0.2, dtype=torch.float64)),
    "circles of many radii": Case(
        cl.Circle(torch.linspace(0.5, 1.0, 12, dtype=torch.float64)), torch.full((12,), 0.2).double()
    ),
    "sphere": Case(cl.Sphere(0.7, slack=False), rows(4, 0.7, 0.0, 0.0), 4.0),
    "sphere with slack": Case(cl.Sphere(0.7), rows(4, 0.3, 0.2, 0.0), 4.0),
    "affine": Case(cl.Affine.sum(1.0), rows(4, 0.5, 0.3, 0.2)),
    "symmetric": Case(cl.Symmetric(), torch.eye(3, dtype=torch.float64)),
    "non-negative": Case(cl.NonNegative(), torch.full((12,), 0.5, dtype=torch.float64)),
    "simplex": Case(cl.Simplex(), rows(6, 0.5, 0.3, 0.2), 4.0),
    "simplex of columns": Case(cl.Simplex(over="columns"), rows(6, 0.5, 0.3, 0.2).T.contiguous(), 4.0),
    "orthogonal": Case(
        cl.Orthogonal(),
        torch.eye(4, 3, dtype=torch.float64),
        run=Run(h=0.05, burn=400, steps=500, replicas=CHAINS, gamma=2.0),
        bias=0.006,
    ),
}


def defects(case: Case) -> Tensor:
    """Chain means of (work / tau - divergence), over the size of the divergence."""
    run = case.run
    weight = case.start.repeat(run.replicas, *[1] * case.start.dim())
    opt = optimizer("BAOAB", [weight], case.constraint, TAU, run)
    monitor = Monitor(opt, burn_in=run.burn)
    for _ in range(run.burn + run.steps):
        weight.grad = case.stiffness * (weight - case.start)
        monitor.record()
        opt.step()
    records = monitor._records[0]
    work, divergence = (torch.stack([each[name] for each in records], 1) for name in ("work", "divergence"))
    size = divergence.mean().abs()
    estimate = monitor.report().groups[0].configurational
    assert estimate is not None
    # the report's number is the ratio of the same averages, and its error is of the right size
    assert estimate.value == pytest.approx(float(work.mean() / divergence.mean()))
    chains = (work - divergence).mean(1) / size
    between = float(chains.std()) / len(chains) ** 0.5
    assert 0.6 * between <= estimate.error <= 1.6 * between
    return chains


def assert_configurational(case: Case, resolution: float) -> None:
    assert_mean(defects(case), 0.0, bias=case.bias, resolution=resolution)


@pytest.mark.parametrize("name", CASES)
def test_configurational_temperature_is_tau(name: str) -> None:
    assert_configurational(CASES[name], resolution=0.08)


@pytest.mark.usefixtures("noise_10_percent_too_large")
@pytest.mark.parametrize("name", some_slowly(tuple(CASES), ("orthogonal", "sphere with slack")))
def test_power_against_noise_10_percent_too_large(name: str) -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_configurational(CASES[name], resolution=0.08)
