"""Steps under general constraints stay on the manifold, however large the gradient and the rate.

A landing costs Jacobians, so the grids are thin and hold one weight each. A landing is accepted where g is at
most 32 roundings of |J| |w|. Here |J| |w| is at most 2 sqrt(2), so the tolerance is 1.2e-5 in float32.
"""

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

import colangevin as cl
from colangevin.constraints import Constraint
from tests.optim.robustness import DTYPES, OPTIMIZERS, RATES, SCALES, assert_feasible, normal, placed

IMPLICIT_TOLERANCES = {torch.float32: 1.2e-5, torch.float64: 1e-12}


def rows_of_norm_one(w: Tensor) -> Tensor:
    return w.square().sum(1) - 1


def entries_at_most_one(w: Tensor) -> Tensor:
    return w.square() - 1


IMPLICIT = {
    "equality": cl.Implicit(rows_of_norm_one),
    "inequality": cl.Implicit(entries_at_most_one, inequality=True),
}
# Steps h G up to about the size of the manifold: Newton lands at once, or after a few halvings.
MODERATE = [(lr, scale) for lr in RATES for scale in SCALES if lr * scale <= 1]
THINNED = [(1e-6, 1e4), (0.1, 1.0), (10.0, 1e-8)]
HUGE = [(lr, scale) for lr in RATES for scale in SCALES if lr * scale > 1]


def run_implicit(
    optimizer_name: str, constraint: Constraint, dtype: torch.dtype, lr: float, scale: float, steps: int
) -> None:
    generator = torch.Generator().manual_seed(11)
    parameter = Parameter(placed(constraint, normal(generator, (2, 2), dtype)))
    optimizer = OPTIMIZERS[optimizer_name]([{"params": [parameter], "constraint": constraint, "lr": lr}])
    for _ in range(steps):
        parameter.grad = scale * normal(generator, (2, 2), dtype)
        optimizer.step()
        assert_feasible(optimizer, IMPLICIT_TOLERANCES[dtype])


@DTYPES
@pytest.mark.parametrize("constraint", IMPLICIT)
@pytest.mark.parametrize("optimizer", ["colod-noise", "colud", "sgd-momentum-noise"])
def test_implicit_steps_stay_on_the_manifold(optimizer: str, constraint: str, dtype: torch.dtype) -> None:
    for lr, scale in THINNED:
        run_implicit(optimizer, IMPLICIT[constraint], dtype, lr, scale, steps=4)


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize("constraint", IMPLICIT)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_many_implicit_steps_stay_on_the_manifold(
    optimizer: str, constraint: str, dtype: torch.dtype
) -> None:
    for lr, scale in MODERATE:
        run_implicit(optimizer, IMPLICIT[constraint], dtype, lr, scale, steps=60)


@pytest.mark.parametrize("optimizer", ["colod", "colud"])
def test_a_huge_implicit_step_lands_after_halving(optimizer: str) -> None:
    """lr 10 and gradients of 1e8: the step is halved about 30 times, then it lands; no error is raised."""
    run_implicit(optimizer, IMPLICIT["equality"], torch.float32, 10.0, 1e8, steps=1)


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize("constraint", IMPLICIT)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_huge_implicit_steps_land_after_halving(optimizer: str, constraint: str, dtype: torch.dtype) -> None:
    for lr, scale in HUGE:
        run_implicit(optimizer, IMPLICIT[constraint], dtype, lr, scale, steps=3)
