"""Columns are the same for every constraint that can hold them: slices along dimension 1."""

import pytest
import torch
from torch import Tensor

import colangevin as cl


def sums_to_one(column: Tensor) -> Tensor:
    return column.sum() - 1


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2, 2)])
@pytest.mark.parametrize(
    "constraint",
    [
        cl.Simplex(over="columns"),
        cl.Affine.sum(1.0, over="columns"),
        cl.Implicit(sums_to_one, over="columns"),
    ],
)
def test_slices_along_dimension_1_sum_to_one(constraint: cl.Constraint, shape: tuple[int, ...]) -> None:
    weight = constraint.init_(torch.rand(shape, dtype=torch.float64), init="nearest")
    sums = weight.transpose(0, 1).flatten(1).sum(1)
    torch.testing.assert_close(sums, torch.ones(3, dtype=torch.float64))
    assert constraint.violation(weight) < 1e-12


def test_spheres_hold_the_same_columns() -> None:
    weight = cl.Sphere(2.0, slack=False, over="columns").init_(torch.randn(4, 3, 2, 2, dtype=torch.float64))
    norms = weight.transpose(0, 1).flatten(1).norm(dim=1)
    torch.testing.assert_close(norms, torch.full((3,), 2.0, dtype=torch.float64))
