"""The state dict of another run is refused, and loading it changes nothing."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim.errors.words import colud, parameter, words
from tests.optim_db import assert_identical, rows_in_balls, snapshot


def saved(constraint: object, *shape: int) -> dict[str, Any]:
    """A state dict after a step."""
    weight = nn.Parameter(torch.full(shape or (2, 2), 0.1))
    opt = cl.CoLud([{"params": [("w", weight)], "constraint": constraint}], 0.1, friction=1.0)
    weight.grad = torch.ones_like(weight)
    opt.step()
    return opt.state_dict()


def positive(w: Tensor) -> Tensor:
    return -w.reshape(-1)[:2]


STATE_DICTS = (
    (
        lambda: saved(cl.Circle(0.5)),
        cl.Sphere(1.0),
        ("parameter 'w' (2, 2)", "saved under Circle(radius=0.5)", "under Sphere(radius=1.0, slack=True)"),
    ),
    (
        lambda: saved(cl.Circle(0.5)),
        cl.Circle(0.6),
        ("parameter 'w' (2, 2)", "saved under Circle(radius=0.5)", "under Circle(radius=0.6)", "fresh"),
    ),
    (
        lambda: saved(cl.Circle(torch.tensor([0.5, 0.6]))),
        cl.Circle(torch.tensor([0.5, 0.7])),
        ("parameter 'w' (2, 2)", "saved under Circle(radius=tensor", "under Circle(radius=tensor"),
    ),
    (
        lambda: saved(cl.Sphere(1.0)),
        cl.Sphere(0.1 * 2**0.5, slack=False),
        ("saved under Sphere(radius=1.0, slack=True)", "slack=False)"),
    ),
    (
        lambda: saved(cl.Free()),
        cl.Circle(0.5),
        ("saved under Free()", "under Circle(radius=0.5)", "Use the same constraint"),
    ),
    (
        lambda: saved(cl.Implicit(rows_in_balls, inequality=True)),
        cl.Implicit(positive, inequality=True),
        ("saved under Implicit(g='tests.optim_db.rows_in_balls'", "test_state_dicts.positive"),
    ),
    (
        lambda: saved(cl.Circle(0.5), 3, 2),
        cl.Circle(0.5),
        ("parameter 'w' (2, 2)", "position of shape (3, 2)", "needs (2, 2)", "same model"),
    ),
    (
        lambda: saved(cl.Free(), 3, 2),
        cl.Free(),
        ("parameter 'w' (2, 2)", "momentum of shape (3, 2)", "needs (2, 2)"),
    ),
    (
        lambda: cl.CoLod([parameter(1.0)], 0.1).state_dict(),
        cl.Free(),
        ("state dict: group 0 has no 'friction'", "optimizer"),
    ),
    (
        lambda: torch.optim.SGD([parameter(1.0)], 0.1).state_dict(),
        cl.Free(),
        ("state dict: group 0 names no constraint", "not saved by this library", "model's weights"),
    ),
    (
        lambda: cl.CoLod([{"params": [parameter(1.0)]}, {"params": [parameter(1.0)]}], 0.1).state_dict(),
        cl.Free(),
        ("state dict: it has 2 parameter groups, the optimizer 1.", "as the saved one was built"),
    ),
    (
        lambda: cl.CoLud([parameter(1.0), parameter(1.0)], 0.1, friction=1.0).state_dict(),
        cl.Free(),
        ("state dict: group 0 has 2 parameters, the optimizer's 1.", "as the saved one was built"),
    ),
)


@pytest.mark.parametrize(("build", "constraint", "message"), STATE_DICTS, ids=range(len(STATE_DICTS)))
def test_state_dict_of_another_run_changes_nothing(
    build: Callable[[], dict[str, Any]], constraint: cl.Constraint, message: tuple[str, ...]
) -> None:
    opt = colud(nn.Parameter(torch.full((2, 2), 0.1)), constraint)
    before = snapshot(opt)
    with pytest.raises(cl.ConstraintError, match=words(*message)):
        opt.load_state_dict(build())
    assert_identical(snapshot(opt), before)


def test_two_radii_that_print_alike_are_told_apart() -> None:
    radius = 0.5
    close = math.nextafter(radius, 1)
    opt = colud(nn.Parameter(torch.full((2, 2), 0.1)), cl.Circle(close))
    with pytest.raises(cl.ConstraintError, match=words("radius=0.5)", f"radius={close!r})")):
        opt.load_state_dict(saved(cl.Circle(radius)))
