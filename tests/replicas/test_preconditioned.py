"""Replicas under Adam and Muon move as each would alone, with rates of their own."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim_db import CONSTRAINTS, ConstraintCase

COPIES, STEPS = 3, 4
RATES = torch.tensor([0.01, 0.03, 0.1], dtype=torch.float64)


def moved(kind: type[torch.optim.Optimizer], weight: Tensor, gradients: list[Tensor], **group: Any) -> Tensor:
    parameter = nn.Parameter(weight.clone())
    optimizer = kind([{"params": [parameter], **group}], 0.05)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


@pytest.mark.parametrize("case", CONSTRAINTS, ids=lambda case: case.id)
@pytest.mark.parametrize("kind", [cl.ConstrainedAdam, cl.ConstrainedMuon])
@pytest.mark.parametrize("decay", [0.0, 0.2])
def test_together_as_apart(kind: type[torch.optim.Optimizer], case: ConstraintCase, decay: float) -> None:
    starts = torch.stack([case.weight(torch.float64, seed) for seed in range(COPIES)])
    g = torch.Generator().manual_seed(0)
    gradients = [torch.randn(starts.shape, generator=g, dtype=torch.float64) for _ in range(STEPS)]
    held = {"constraint": case.constraint}
    together = moved(
        kind,
        starts,
        gradients,
        replicas=COPIES,
        lr=RATES,
        weight_decay=decay * torch.arange(1, COPIES + 1, dtype=torch.float64),
        **held,
    )
    for copy in range(COPIES):
        options = {"lr": RATES[copy].item(), "weight_decay": decay * (copy + 1), **held}
        apart = moved(kind, starts[copy], [each[copy] for each in gradients], **options)
        torch.testing.assert_close(together[copy], apart, rtol=1e-11, atol=1e-11)
