"""Every step from finite gradients stays finite, on the manifold and cotangent, for any gradient and rate."""

import pytest
import torch
from torch.nn import Parameter

import colangevin as cl
from colangevin.constraints import Constraint
from tests.optim.robustness import (
    CONSTRAINTS,
    DTYPES,
    OPTIMIZERS,
    RATES,
    SCALES,
    TOLERANCES,
    assert_feasible,
    normal,
    placed,
)


def run_grid(optimizer_name: str, constraint: Constraint, dtype: torch.dtype, steps: int, every: int) -> None:
    """Train one group for each learning rate, with one replica for each gradient size."""
    generator = torch.Generator().manual_seed(7)
    shape = (6, 4)
    starts = [
        torch.stack([placed(constraint, normal(generator, shape, dtype)) for _ in SCALES]) for _ in RATES
    ]
    parameters = [Parameter(start.clone()) for start in starts]
    optimizer = OPTIMIZERS[optimizer_name](
        [
            {"params": [(f"lr={lr}", parameter)], "constraint": constraint, "lr": lr, "replicas": len(SCALES)}
            for lr, parameter in zip(RATES, parameters, strict=True)
        ]
    )
    scales = torch.tensor(SCALES, dtype=dtype).view(-1, 1, 1)
    for step in range(1, steps + 1):
        for parameter in parameters:
            parameter.grad = scales * normal(generator, (len(SCALES), *shape), dtype)
        optimizer.step()
        if step % every == 0:
            assert_feasible(optimizer, TOLERANCES[dtype])
    for lr, parameter, start in zip(RATES, parameters, starts, strict=True):
        moved = (parameter.detach() - start).abs().amax(dim=(1, 2))
        for scale, distance in zip(SCALES, moved.tolist(), strict=True):
            assert distance > 0 or lr**2 * scale < 1e-6, (lr, scale)


@DTYPES
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_of_any_size_stay_on_the_manifold(optimizer: str, constraint: str, dtype: torch.dtype) -> None:
    run_grid(optimizer, CONSTRAINTS[constraint], dtype, steps=30, every=10)


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_thousand_steps_of_any_size_stay_on_the_manifold(
    optimizer: str, constraint: str, dtype: torch.dtype
) -> None:
    run_grid(optimizer, CONSTRAINTS[constraint], dtype, steps=1000, every=20)


@DTYPES
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_free_parameters_stay_finite(optimizer: str, dtype: torch.dtype) -> None:
    run_grid(optimizer, cl.Free(), dtype, steps=30, every=10)
