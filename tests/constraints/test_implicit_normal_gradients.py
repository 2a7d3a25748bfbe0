"""A gradient along the normal of a general constraint leaves a momentum of rounding, which is cotangent."""

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

import colangevin as cl


def unit_norm(part: Tensor) -> Tensor:
    return part.square().sum() - 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("over", ["weight", "rows"])
@pytest.mark.parametrize("size", [1e-8, 1.0, 1e4])
def test_momenta_of_normal_gradients_are_cotangent(size: float, over: str, dtype: torch.dtype) -> None:
    """With lr = 0 the momentum is the gradient, projected; twenty weights round in twenty ways.

    What the first projection leaves is rounding, in any direction. Where a share t of it is tangent, the
    second leaves an error of eps / t. In 3 dimensions t < 1e-4 has a probability of 5e-9, for 80 rows 4e-7.
    """
    for seed in range(20):
        start = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        rows = start / (start.norm(dim=1, keepdim=True) if over == "rows" else start.norm())
        weight = Parameter(rows.to(dtype))
        group = {"params": [("weight", weight)], "constraint": cl.Implicit(unit_norm, over=over)}
        optimizer = cl.ConstrainedSGD([group], lr=0.0, momentum=0.5)
        weight.grad = size * weight.detach()
        optimizer.step()
        assert cl.diagnostics.cotangency(optimizer)["weight"] <= 1e4 * torch.finfo(dtype).eps, seed
