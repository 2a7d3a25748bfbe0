"""Extreme radii, weights and gradients: the largest, the denormal and zero."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

import colangevin as cl
from colangevin.constraints import Constraint
from tests.optim.robustness import (
    CONSTRAINTS,
    DTYPES,
    OPTIMIZERS,
    TOLERANCES,
    assert_feasible,
    assert_finite,
    normal,
    placed,
)


@dataclass(frozen=True)
class Extreme:
    constraint: Callable[[float], Constraint]
    #: from r to a weight of shape (3, 4)
    weights: dict[str, Callable[[float], Tensor]]


def full(value: float) -> Tensor:
    return torch.full((3, 4), value, dtype=torch.float64)


def spread(r: float) -> Tensor:
    """Entries between -r/2 and r/2."""
    return r * (torch.rand(3, 4, generator=torch.Generator().manual_seed(5)).double() - 0.5)


EXTREMES = {
    "circle": Extreme(
        cl.Circle,
        {"0": lambda r: full(0.0), "1e-40": lambda r: full(1e-40), "r": full, "spread": spread},
    ),
    "sphere-slack": Extreme(
        cl.Sphere,
        {
            "0": lambda r: full(0.0),
            "1e-40": lambda r: full(1e-40),
            "r": lambda r: full(r / 2),
            "spread": spread,
        },
    ),
    "sphere": Extreme(
        lambda r: cl.Sphere(r, slack=False), {"r": lambda r: full(r / 2), "spread": lambda r: spread(r)}
    ),
}
RADII = [1e-30, 1e-10, 1.0, 1e30]
MOVES = ["colod-noise", "colud", "colud-noise", "sgd-momentum"]


def run_extreme(name: str, r: float, dtype: torch.dtype, gradient: Callable[[Tensor], Tensor]) -> None:
    """A few steps of several optimizers and learning rates from each extreme weight."""
    extreme = EXTREMES[name]
    constraint = extreme.constraint(r)
    for start in extreme.weights.values():
        weight = start(r).to(dtype)
        if name == "sphere":
            constraint.init_(weight)
        for move in MOVES:
            groups = []
            for lr in (1e-6, 0.1, 10.0):
                parameter = Parameter(weight.clone())
                groups.append({"params": [parameter], "constraint": constraint, "lr": lr})
            with pytest.MonkeyPatch.context() as patch:
                # a weight exactly at r without noise is warned of, and here it is what is tested
                patch.setattr("colangevin.optim.base.warn_at_rest", lambda *_: None)
                optimizer = OPTIMIZERS[move](groups)
            generator = torch.Generator().manual_seed(3)
            for _ in range(3):
                for group in optimizer.param_groups:
                    (parameter,) = group["params"]
                    parameter.grad = gradient(normal(generator, (3, 4), dtype))
                optimizer.step()
            assert_feasible(optimizer, TOLERANCES[dtype])


@DTYPES
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e8])
@pytest.mark.parametrize("r", RADII)
@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_radii_and_weights(name: str, r: float, scale: float, dtype: torch.dtype) -> None:
    run_extreme(name, r, dtype, lambda noise: scale * noise)


@DTYPES
@pytest.mark.parametrize("r", RADII)
@pytest.mark.parametrize("name", EXTREMES)
def test_the_largest_gradients_at_extreme_radii(name: str, r: float, dtype: torch.dtype) -> None:
    run_extreme(name, r, dtype, lambda noise: torch.finfo(dtype).max * noise.sign())


@DTYPES
@pytest.mark.parametrize("move", OPTIMIZERS)
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_the_largest_gradients_at_any_learning_rate(constraint: str, move: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(4)
    for lr in (0.0, 1e-30, 1e-6, 10.0):
        parameter = Parameter(placed(CONSTRAINTS[constraint], normal(generator, (5, 4), dtype)))
        group = {"params": [parameter], "constraint": CONSTRAINTS[constraint], "lr": lr}
        optimizer = OPTIMIZERS[move]([group])
        for _ in range(3):
            signs = normal(generator, (5, 4), dtype).sign()
            parameter.grad = torch.finfo(dtype).max * signs
            optimizer.step()
            assert_feasible(optimizer, TOLERANCES[dtype])


@DTYPES
@pytest.mark.parametrize("move", OPTIMIZERS)
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_denormal_gradients(constraint: str, move: str, dtype: torch.dtype) -> None:
    """Momenta below the smallest normal number have no relative precision: only q is held to a tolerance."""
    generator = torch.Generator().manual_seed(6)
    parameter = Parameter(placed(CONSTRAINTS[constraint], normal(generator, (5, 4), dtype)))
    optimizer = OPTIMIZERS[move]([{"params": [parameter], "constraint": CONSTRAINTS[constraint]}])
    tiny = torch.finfo(dtype).tiny * 1e-3
    for _ in range(3):
        parameter.grad = tiny * normal(generator, (5, 4), dtype)
        optimizer.step()
        assert_finite(optimizer)
        assert max(cl.diagnostics.violation(optimizer).values()) <= TOLERANCES[dtype]


@DTYPES
@pytest.mark.parametrize("r", [1e-30, 1e-15, 1e6])
@pytest.mark.parametrize("name", ["circle", "sphere-slack", "sphere"])
@pytest.mark.parametrize("move", ["colod", "colud", "sgd-momentum"])
def test_a_manifold_of_any_radius_moves_like_the_unit_one(
    move: str, name: str, r: float, dtype: torch.dtype
) -> None:
    """With gradients in proportion to r, a change of r is a change of units: weight / r stays the same.

    This holds up to where forces are cut: in float32 at kicks of 4e9, whatever the radius.
    """
    runs = []
    for radius in (1.0, r):
        constraint = EXTREMES[name].constraint(radius)
        start = spread(1.0).to(dtype)
        if name == "sphere":
            start = cl.Sphere(1.0, slack=False).init_(start)
        parameter = Parameter(start * radius)
        optimizer = OPTIMIZERS[move]([{"params": [parameter], "constraint": constraint}])
        generator = torch.Generator().manual_seed(15)
        for _ in range(10):
            parameter.grad = radius * normal(generator, (3, 4), dtype)
            optimizer.step()
        runs.append(parameter.detach() / radius)
    assert float((runs[0] - start).abs().max()) > 0.05
    tolerance = 50 * torch.finfo(dtype).eps
    torch.testing.assert_close(runs[1], runs[0], rtol=0, atol=tolerance)
