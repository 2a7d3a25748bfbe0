"""Weight decay of the preconditioned optimizers moves weights along their constraint."""

import math

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim_db import ConstraintCase, by_id

KINDS = pytest.mark.parametrize("kind", [cl.ConstrainedAdam, cl.ConstrainedMuon])
LR, DECAY, STEPS = 0.1, 0.2, 20


def decayed(kind: type[torch.optim.Optimizer], case: ConstraintCase) -> tuple[Tensor, Tensor]:
    """A weight before and after steps without a gradient."""
    weight = nn.Parameter(case.weight(torch.float64))
    groups = [{"params": [weight], "constraint": case.constraint}]
    optimizer = kind(groups, LR, weight_decay=DECAY, **_plain(kind))
    before = weight.detach().clone()
    for _ in range(STEPS):
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
    return before, weight.detach()


def _plain(kind: type[torch.optim.Optimizer]) -> dict[str, float]:
    return {"momentum": 0.0} if kind is cl.ConstrainedMuon else {}


@KINDS
def test_a_free_weight_shrinks_by_lr_times_decay(kind: type[torch.optim.Optimizer]) -> None:
    before, after = decayed(kind, by_id("free"))
    torch.testing.assert_close(after, before * (1 - LR * DECAY) ** STEPS, rtol=1e-12, atol=0)


@KINDS
@pytest.mark.parametrize("constraint", ["sphere", "orthogonal-tall", "orthogonal-wide", "orthogonal-square"])
def test_an_equality_takes_the_decay_away(kind: type[torch.optim.Optimizer], constraint: str) -> None:
    before, after = decayed(kind, by_id(constraint))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-13)


@KINDS
def test_a_bounded_weight_shrinks(kind: type[torch.optim.Optimizer]) -> None:
    """On a circle by cos^2 of what a free weight shrinks by, so by nearly as much far from the bound."""
    before, after = decayed(kind, by_id("circle"))
    shrunk = after / before
    assert bool((shrunk < 1).all())
    least = (1 - LR * DECAY) ** STEPS
    assert bool((shrunk > least).all())
    far = before.abs() < 0.1  # of the radius 0.5
    assert bool((shrunk[far] < least + 0.04).all())
    rows, norms = (x.flatten(1).norm(dim=1) for x in decayed(kind, by_id("sphere-slack")))
    assert bool((norms < rows).all())
    assert math.isclose(float((norms / rows).min()), least, abs_tol=0.05)
