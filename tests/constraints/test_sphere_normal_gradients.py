"""Gradients along the normal of a sphere: what is left of them is cotangent, however little it is."""

import pytest
import torch
from torch import nn

import colangevin as cl


@pytest.mark.parametrize("slack", [False, True], ids=["fixed", "slack"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e6])
@pytest.mark.parametrize("splitting", ["OBA", "OBABO", "BAOAB"])
@pytest.mark.parametrize("shape", [(1, 2), (3, 2), (2, 5), (4, 33)], ids=str)
def test_momenta_are_cotangent(
    slack: bool, dtype: torch.dtype, size: float, splitting: str, shape: tuple[int, ...]
) -> None:
    constraint = cl.Sphere(0.7, slack=slack)
    start = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    weight = nn.Parameter(constraint.init_(start, init="nearest"))
    optimizer = cl.CoLud(
        [{"params": [weight], "constraint": constraint}], 0.1, friction=0.0, splitting=splitting
    )

    def closure() -> None:
        weight.grad = size * weight.detach()

    for _ in range(3):
        optimizer.step(closure)
        assert cl.diagnostics.cotangency(optimizer).popitem()[1] <= 64 * torch.finfo(dtype).eps
        assert cl.diagnostics.violation(optimizer).popitem()[1] <= 64 * torch.finfo(dtype).eps
