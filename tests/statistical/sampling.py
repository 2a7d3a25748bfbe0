"""Many chains of one optimizer on a potential whose gradient is known in closed form."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import colangevin as cl
from colangevin.optim.base import ConstrainedOptimizer

__all__ = ["SCHEMES", "SPLITTINGS", "Run", "chain_means", "optimizer", "some_slowly", "tempering"]

SPLITTINGS = ("OBA", "BOA", "BAOAB")
SCHEMES = ("overdamped", *SPLITTINGS)


@dataclass(frozen=True)
class Run:
    """``replicas`` x ``each`` chains, ``steps`` steps kept after ``burn`` discarded ones."""

    h: float
    burn: int
    steps: int
    replicas: int
    each: int = 1
    gamma: float = 1.0
    seed: int = 2021


def optimizer(
    scheme: str, weights: list[Tensor], constraint: cl.Constraint, tau: float, run: Run
) -> ConstrainedOptimizer:
    """CoLod for "overdamped", CoLud for a splitting, on weights whose dimension 0 stacks replicas."""
    groups = [{"params": weights, "constraint": constraint, "replicas": run.replicas}]
    if scheme == "overdamped":
        return cl.CoLod(groups, run.h, temperature=tau, seed=run.seed)
    return cl.CoLud(groups, run.h, friction=run.gamma, temperature=tau, splitting=scheme, seed=run.seed)


def chain_means(
    scheme: str,
    weight: Tensor,
    constraint: cl.Constraint,
    tau: float,
    run: Run,
    *,
    gradient: Callable[[Tensor], Tensor],
    observe: Callable[[Tensor], Tensor],
) -> Tensor:
    """Time averages of ``observe(weight)``, of its shape; on return ``weight`` holds the end points."""
    opt = optimizer(scheme, [weight], constraint, tau, run)
    total = torch.zeros_like(observe(weight))
    for step in range(run.burn + run.steps):
        weight.grad = gradient(weight)
        opt.step()
        if step >= run.burn:
            total += observe(weight)
    return total / run.steps


def some_slowly(schemes: Sequence[str], slow: Sequence[str]) -> list[Any]:
    """Parameters of a test, some of them marked as slow."""
    return [pytest.param(each, marks=pytest.mark.slow) if each in slow else each for each in schemes]


def tempering(scheme: str, h: float, gamma: float) -> float:
    r"""The factor by which a splitting misses the temperature of positions, to first order in h.

    With :math:`c = e^{-\gamma h}` the positions of OBA sample :math:`\tau (1 + c)/2`, whatever the manifold
    and the potential (the steps B, A conserve :math:`H \pm \frac h2 \dot V`, whose last term friction turns
    into a multiple of V); those of BOA are the positions of OBA under the potential c V. BAOAB is symmetric
    and misses only at second order. ``test_weak_order.py`` checks this without random numbers.
    """
    c = math.exp(-gamma * h)
    return {"OBA": (1 + c) / 2, "BOA": (1 + c) / (2 * c), "BAOAB": 1.0}[scheme]
