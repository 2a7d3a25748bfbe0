"""Weights edited between steps: the next step starts from a feasible edit and refuses an infeasible one."""

import math

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim_db import (
    CONSTRAINTS,
    OBA,
    ConstraintCase,
    Problem,
    assert_identical,
    by_id,
    each_constraint,
    each_dtype,
    snapshot,
    start,
    train,
)


def edit_in_place(problem: Problem, weight: Tensor) -> None:
    with torch.no_grad():
        problem.weight.copy_(weight)


def edit_by_load(problem: Problem, weight: Tensor) -> None:
    problem.load_state_dict({**problem.state_dict(), "weight": weight})


def edit_data_in_place(problem: Problem, weight: Tensor) -> None:
    problem.weight.data.copy_(weight)


def edit_data_by_replacing(problem: Problem, weight: Tensor) -> None:
    problem.weight.data = weight.clone()


EDITS = (edit_in_place, edit_by_load, edit_data_in_place, edit_data_by_replacing)
each_edit = pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
SCHEMES = (by_id("colod"), OBA, by_id("colud-BAOAB"), by_id("sgd-momentum"))


@each_edit
@each_dtype
@each_constraint
def test_feasible_edit_is_respected(constraint: ConstraintCase, dtype: torch.dtype, edit: object) -> None:
    for optimizer in SCHEMES:
        problem, opt = start(optimizer, constraint, dtype)
        train(problem, opt, 3)
        edited = constraint.weight(dtype, seed=9)
        edit(problem, edited)
        for state in opt.state.values():
            if "momentum" in state:
                state["momentum"].zero_()
        problem.zero_grad(set_to_none=False)
        opt.step()
        error = (problem.weight - edited).abs().max().item()
        assert error <= 8 * torch.finfo(dtype).eps * edited.abs().max().item()
        train(problem, opt, 1)


@each_edit
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bf16"])
@pytest.mark.parametrize("constraint", CONSTRAINTS[1:], ids=lambda case: case.id)
def test_infeasible_edit_is_an_error_that_changes_nothing(
    constraint: ConstraintCase, dtype: torch.dtype, edit: object
) -> None:
    for optimizer in SCHEMES:
        problem, opt = start(optimizer, constraint, dtype)
        train(problem, opt, 2)
        uneven = -torch.linspace(10, 20, problem.weight.numel())
        uneven[1::2] *= 3
        edit(problem, (uneven.view_as(problem.weight) * constraint.weight(dtype, seed=9)).to(dtype))
        before = snapshot(opt)
        problem.backward()
        with pytest.raises(cl.InfeasibleError, match="parameter 'weight'"):
            opt.step()
        assert_identical(snapshot(opt), before)


def test_edit_keeps_the_side_of_the_slack() -> None:
    weight = nn.Parameter(torch.tensor([0.6, -0.6], dtype=torch.float64))
    opt = cl.CoLud([{"params": [weight], "constraint": cl.Circle(1.0)}], 0.1, friction=0.0)
    weight.grad = torch.zeros_like(weight)
    opt.step()
    opt.state[weight]["position"].copy_(math.pi - opt.state[weight]["position"])  # same weight, xi < 0
    with torch.no_grad():
        weight.copy_(torch.tensor([0.3, -0.6]))
    opt.step()
    assert (opt.state[weight]["position"].cos() < 0).all()
