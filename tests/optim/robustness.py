"""What the tests of steps of any size share: optimizers, constraints, weights, and the tolerances asserted.

Tolerances, for weights of a few dozen entries: relative violation and cotangency of 2e-6 in float32 (17
roundings; the iteration of orthogonality stops at 8) and 1e-12 in float64.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import colangevin as cl
from colangevin.constraints import Constraint
from colangevin.optim.base import ConstrainedOptimizer

TOLERANCES = {torch.float32: 2e-6, torch.float64: 1e-12}
DTYPES = pytest.mark.parametrize("dtype", TOLERANCES, ids=["float32", "float64"])

SCALES = [1e-8, 1e-4, 1.0, 1e4, 1e8]  # of gradients
RATES = [1e-6, 1e-3, 0.1, 1.0, 10.0]  # learning rates
TAU = 1e-2

Group = dict[str, object]

OPTIMIZERS: dict[str, Callable[[list[Group]], ConstrainedOptimizer]] = {
    "colod": lambda groups: cl.CoLod(groups, lr=0.1),
    "colod-noise": lambda groups: cl.CoLod(groups, lr=0.1, temperature=TAU, seed=1),
    "colud": lambda groups: cl.CoLud(groups, lr=0.1, friction=1.0),
    "colud-noise": lambda groups: cl.CoLud(groups, lr=0.1, friction=1.0, temperature=TAU, seed=1),
    "colud-baoab": lambda groups: cl.CoLud(
        groups, lr=0.1, friction=1.0, temperature=TAU, seed=1, splitting="BAOAB"
    ),
    "sgd": lambda groups: cl.ConstrainedSGD(groups, lr=0.1),
    "sgd-noise": lambda groups: cl.ConstrainedSGD(groups, lr=0.1, temperature=TAU, seed=1),
    "sgd-momentum": lambda groups: cl.ConstrainedSGD(groups, lr=0.1, momentum=0.9),
    "sgd-momentum-noise": lambda groups: cl.ConstrainedSGD(
        groups, lr=0.1, momentum=0.9, temperature=TAU, seed=1
    ),
    "adam": lambda groups: cl.ConstrainedAdam(groups, lr=0.1),
    "muon": lambda groups: cl.ConstrainedMuon(groups, lr=0.1),
}

CONSTRAINTS: dict[str, Constraint] = {
    "circle": cl.Circle(0.05),
    "circle-radii": cl.Circle(torch.logspace(-2, 1, 4, dtype=torch.float64)),
    "sphere": cl.Sphere(0.7, slack=False),
    "sphere-slack": cl.Sphere(3.0),
    "orthogonal": cl.Orthogonal(),
    "affine": cl.Affine(torch.tensor([[1.0, 2.0, 0.0, 1.0], [0.0, 1.0, -1.0, 0.0]]), 0.5),
    "affine-mean": cl.Affine.mean(0.0),
    "simplex": cl.Simplex(),
    "nonnegative": cl.NonNegative(),
}


def normal(generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Standard normals that are the same in every dtype, up to rounding."""
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def placed(constraint: Constraint, weight: Tensor) -> Tensor:
    """A weight on the manifold, away from its bound where there is one."""
    if isinstance(constraint, cl.Circle):
        return torch.tanh(weight) * constraint.radii.like(weight) * 0.8
    if isinstance(constraint, cl.Sphere) and constraint.slack:
        rows = weight.flatten(1)
        r = constraint.radii.like(rows)
        return (0.6 * r * rows / rows.norm(dim=1, keepdim=True)).reshape(weight.shape)
    if isinstance(constraint, cl.Implicit) and constraint.inequality:
        return torch.tanh(weight) * 0.8
    if isinstance(constraint, cl.Orthogonal):
        # the nearest orthonormal matrix; init_ would draw one from torch's generator
        manifold = constraint.on(weight.shape)
        return manifold.lower(manifold.lift(weight.unsqueeze(0)))[0].contiguous()
    if isinstance(constraint, cl.Simplex):
        return torch.softmax(weight, dim=1)
    if isinstance(constraint, cl.NonNegative):
        return weight.abs()
    return constraint.init_(weight)


def assert_finite(optimizer: ConstrainedOptimizer) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state[parameter]
            tensors = {
                "weight": parameter,
                **{key: value for key, value in state.items() if isinstance(value, Tensor)},
            }
            for key, value in tensors.items():
                assert bool(value.isfinite().all()), (key, group["constraint"], group["lr"])


def assert_feasible(optimizer: ConstrainedOptimizer, tolerance: float) -> None:
    """Everything finite, on its manifold and cotangent, relative to radius and momentum."""
    assert_finite(optimizer)
    for measure in (cl.diagnostics.violation, cl.diagnostics.cotangency):
        for name, value in measure(optimizer).items():
            assert value <= tolerance, (measure.__name__, name, optimizer.param_groups[0]["constraint"])


def orthonormal(shape: tuple[int, int], dtype: torch.dtype, seed: int = 14) -> Tensor:
    """A random matrix with orthonormal columns, or rows where it is wide."""
    return placed(cl.Orthogonal(), normal(torch.Generator().manual_seed(seed), shape, dtype))
