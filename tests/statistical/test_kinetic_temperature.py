r"""Kinetic temperature within 1 % of tau for every constraint, by ``diagnostics.kinetic_temperature``.

The diagnostic gives one number a parameter, so the independent chains of an assertion are 32 parameters,
each a stack of weights; with 31 degrees of freedom z = 6.1. Momenta start at 0.
"""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import colangevin as cl
from tests.statistical.sampling import SPLITTINGS, Run, optimizer
from tests.statistics import assert_mean

TAU = 0.3
PARAMETERS = 32

# Geodesics conserve |p|: without potential the momenta of circle, sphere and free weights are exact at any
# step size. RATTLE conserves energy up to a fraction of (h |P|)^2, here 0.2^2: its budget is 0.2 %. Momenta
# decay by e^-1 a step, so 10 steps are enough of a burn-in and 60 samples hardly repeat.
GEODESIC = Run(h=0.5, burn=10, steps=60, replicas=4, gamma=2.0)
RATTLE = Run(h=0.05, burn=10, steps=60, replicas=8, gamma=20.0)
# Under V = |w - start|^2/2 the splittings miss the kinetic temperature at second order, the oscillator by
# h^2/(2(1 + c)) = 0.3 % (test_weak_order.py), the others by no more: budget 0.4 %. Time 10 of burn-in.
BOUND = Run(h=0.1, burn=100, steps=200, replicas=8, gamma=4.0, seed=1)
BOUND_RATTLE = Run(h=0.05, burn=200, steps=200, replicas=12, gamma=10.0, seed=1)


@dataclass(frozen=True)
class Case:
    """A constraint and a feasible start; the budgets are relative to tau."""

    constraint: cl.Constraint
    start: Tensor
    run: Run = GEODESIC
    bias: float = 0.0
    bound_run: Run = BOUND
    bound_bias: float = 0.004


def rows(count: int, *entries: float) -> Tensor:
    return torch.tensor([entries], dtype=torch.float64).repeat(count, 1)


CASES = {
    "circle": Case(cl.Circle(0.7), torch.full((256,), 0.2, dtype=torch.float64)),
    "sphere": Case(cl.Sphere(0.7, slack=False), rows(128, 0.7, 0.0, 0.0)),
    "sphere with slack": Case(cl.Sphere(0.7), rows(96, 0.3, 0.0, 0.0)),
    "orthogonal": Case(
        cl.Orthogonal(), torch.eye(20, 10, dtype=torch.float64), RATTLE, 0.002, BOUND_RATTLE, 0.004
    ),
    "free": Case(cl.Free(), torch.zeros(256, dtype=torch.float64)),
}


def temperatures(splitting: str, case: Case, run: Run, stiffness: float) -> Tensor:
    """Time averages of each parameter's kinetic temperature, over tau."""
    weights = [case.start.repeat(run.replicas, *[1] * case.start.dim()) for _ in range(PARAMETERS)]
    opt = optimizer(splitting, weights, case.constraint, TAU, run)
    total = torch.zeros(PARAMETERS, dtype=torch.float64)
    for step in range(run.burn + run.steps):
        for weight in weights:
            weight.grad = stiffness * (weight - case.start)
        opt.step()
        if step >= run.burn:
            total += torch.tensor(list(cl.diagnostics.kinetic_temperature(opt).values()), dtype=total.dtype)
    return total / run.steps / TAU


def assert_temperature(splitting: str, case: Case) -> None:
    """Without potential, where OBA and BOA are the same."""
    means = temperatures(splitting, case, case.run, stiffness=0.0)
    assert_mean(means, 1.0, bias=case.bias, resolution=0.01)


@pytest.mark.parametrize("name", CASES)
def test_kinetic_temperature_is_tau(name: str) -> None:
    assert_temperature("BOA", CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("splitting", SPLITTINGS)
@pytest.mark.parametrize("name", CASES)
def test_kinetic_temperature_in_a_potential_is_tau(name: str, splitting: str) -> None:
    case = CASES[name]
    means = temperatures(splitting, case, case.bound_run, stiffness=1.0)
    assert_mean(means, 1.0, bias=case.bound_bias, resolution=0.01)


def unit_norm(weight: Tensor) -> Tensor:
    return weight.square().sum() - 1


@pytest.mark.slow
def test_kinetic_temperature_of_an_implicit_sphere_is_tau() -> None:
    """32 chains in 1,024 dimensions; RATTLE on a sphere conserves the speed exactly, so there is no bias."""
    start = torch.zeros(32, 32, dtype=torch.float64)
    start[0, 0] = 1
    case = Case(cl.Implicit(unit_norm), start, Run(h=0.02, burn=10, steps=60, replicas=1, gamma=50.0))
    assert_temperature("BAOAB", case)


@pytest.mark.usefixtures("noise_10_percent_too_large")
@pytest.mark.parametrize("name", ["circle", "orthogonal"])
def test_power_against_noise_10_percent_too_large(name: str) -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_temperature("BOA", CASES[name])


@pytest.mark.usefixtures("no_projection_after_noise")
@pytest.mark.parametrize("splitting", ["BOA", "BAOAB"])
def test_power_against_noise_without_projection(splitting: str) -> None:
    """(In the order OBA the projection after B repairs it: it acts at the same point, and Π is linear.)"""
    with pytest.raises(AssertionError, match="biased"):
        assert_temperature(splitting, CASES["sphere"])
