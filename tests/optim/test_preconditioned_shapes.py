"""Adam and Muon on columns, whole matrices and blocks: as on rows and on weights of their own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl

OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "Adam": lambda groups: cl.ConstrainedAdam(groups, 0.01),
    "Muon": lambda groups: cl.ConstrainedMuon(groups, 0.01),
}


def trained(optimizer: str, constraint: cl.Constraint, weight: Tensor, turned: bool = False) -> Tensor:
    """A weight after some steps, along gradients that are turned as the weight is."""
    parameter = nn.Parameter(weight.clone())
    made = OPTIMIZERS[optimizer]([{"params": [("w", parameter)], "constraint": constraint}])
    for step in range(5):
        draw = torch.Generator().manual_seed(step)
        grad = torch.randn(12, 8, generator=draw, dtype=weight.dtype)
        parameter.grad = grad.T.contiguous() if turned else grad
        made.step()
    return parameter.detach()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("slack", [False, True])
def test_columns_move_as_the_rows_of_the_transposed(optimizer: str, slack: bool) -> None:
    torch.manual_seed(0)
    weight = nn.functional.normalize(torch.randn(12, 8, dtype=torch.float64), dim=0) * (0.5 if slack else 1)
    columns = trained(optimizer, cl.Sphere(1.0, slack, over="columns"), weight)
    rows = trained(optimizer, cl.Sphere(1.0, slack), weight.T.contiguous(), turned=True)
    # msign of the transposed is rounded to bfloat16 in another order
    torch.testing.assert_close(columns, rows.T, rtol=0, atol=2e-3 if optimizer == "Muon" else 1e-12)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_whole_matrix_keeps_its_norm_and_moves_along_its_matrix_sign(optimizer: str) -> None:
    torch.manual_seed(0)
    weight = torch.randn(12, 8, dtype=torch.float64)
    moved = trained(optimizer, cl.Sphere(over="matrix"), weight)
    torch.testing.assert_close(moved.norm(), weight.norm(), rtol=1e-12, atol=0)
    # a move along one singular direction only would have rank 1
    assert torch.linalg.matrix_rank(moved - weight * (moved * weight).sum() / weight.norm() ** 2) == 8


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_blocks_move_as_weights_of_their_own(optimizer: str) -> None:
    torch.manual_seed(0)
    halves = [cl.Orthogonal().init_(torch.randn(6, 8, dtype=torch.float64)) for _ in range(2)]
    joined = nn.Parameter(torch.cat(halves))
    apart = [nn.Parameter(half.clone()) for half in halves]
    together = OPTIMIZERS[optimizer]([{"params": [joined], "constraint": cl.Orthogonal(blocks=2)}])
    alone = OPTIMIZERS[optimizer]([{"params": apart, "constraint": cl.Orthogonal()}])
    for step in range(5):
        joined.grad = torch.randn(12, 8, generator=torch.Generator().manual_seed(step)).double()
        for parameter, grad in zip(apart, joined.grad.split(6), strict=True):
            parameter.grad = grad.clone()
        together.step()
        alone.step()
    torch.testing.assert_close(joined.detach(), torch.cat([each.detach() for each in apart]))
