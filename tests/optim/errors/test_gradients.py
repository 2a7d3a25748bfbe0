"""Gradients that are not finite or are sparse are refused, and the refused step changes nothing."""

import math

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.optim.errors.words import parameter, words
from tests.optim_db import (
    OBA,
    ConstraintCase,
    OptimizerCase,
    Problem,
    assert_identical,
    by_id,
    snapshot,
    start,
    train,
    whole_table,
)


def test_sparse_gradient_changes_nothing() -> None:
    embedding, other = nn.Embedding(4, 3, sparse=True), parameter(1.0)
    nn.init.uniform_(embedding.weight, -0.5, 0.5)
    groups = [{"params": [("other", other)]}, *cl.constrain(embedding, {"weight": cl.Circle(1.0)})]
    opt = OBA.build(groups)
    embedding(torch.tensor([1])).sum().backward()
    other.grad = torch.ones(1)
    before = snapshot(opt)
    with pytest.raises(cl.ConstraintError, match=words("parameter 'weight' (4, 3): sparse", "sparse=False")):
        opt.step()
    assert_identical(snapshot(opt), before)


@whole_table
def test_gradient_that_is_not_finite_changes_nothing(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    problem, opt = start(optimizer, constraint)
    check_refused(problem, opt, "weight", math.nan)
    train(problem, opt, 1)
    check_refused(problem, opt, "weight", -math.inf)
    check_refused(problem, opt, "bias", math.nan)


def check_refused(problem: Problem, opt: torch.optim.Optimizer, name: str, bad: float) -> None:
    problem.backward()
    grad = getattr(problem, name).grad
    grad.view(-1)[1] = bad
    before = snapshot(opt)
    message = words(f"parameter '{name}' {tuple(grad.shape)}: its gradient holds NaN or Inf", "GradScaler")
    with pytest.raises(cl.NonFiniteError, match=message):
        opt.step()
    assert_identical(snapshot(opt), before)


def test_refused_first_step_leaves_no_trace_in_the_state_dict() -> None:
    problem, opt = start(OBA, by_id("circle"))
    problem.backward()
    problem.weight.grad.fill_(math.nan)
    with pytest.raises(cl.NonFiniteError):
        opt.step()
    assert opt.state_dict()["state"] == {}


def test_several_such_gradients_are_counted() -> None:
    problem, opt = start(OBA, by_id("circle"))
    problem.backward()
    for each in problem.parameters():
        each.grad.fill_(math.nan)
    with pytest.raises(cl.NonFiniteError, match=words("'weight'", "(1 more parameters have one too)")):
        opt.step()
