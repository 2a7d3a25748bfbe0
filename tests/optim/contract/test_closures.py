"""Closures: how often they are called, which gradient a kick gets, and what a failing one leaves."""

import math

import pytest
import torch
from torch import Tensor

import colangevin as cl
from colangevin.dynamics.letters import drift, kick, ornstein_uhlenbeck
from tests.optim.contract.cases import NOISY
from tests.optim_db import (
    OBA,
    ConstraintCase,
    OptimizerCase,
    Problem,
    assert_identical,
    by_id,
    check_feasible,
    each_constraint,
    each_optimizer,
    snapshot,
    start,
    train,
)


@each_optimizer
def test_closure_is_called_once_with_gradients_enabled(optimizer: OptimizerCase) -> None:
    problem, opt = start(optimizer, by_id("orthogonal-tall"))
    plain, plain_opt = start(optimizer, by_id("orthogonal-tall"))
    enabled = []

    def closure() -> Tensor:
        enabled.append(torch.is_grad_enabled())
        problem.backward()
        return problem()

    expected = problem().detach()
    with torch.no_grad():
        loss = opt.step(closure)
        assert not torch.is_grad_enabled()
    train(plain, plain_opt, 1)
    assert enabled == [True]
    assert_identical(loss.detach(), expected)
    assert_identical(snapshot(opt), snapshot(plain_opt))


@pytest.mark.parametrize(("splitting", "calls"), [("ABO", 2), ("BABO", 2), ("ABABO", 3), ("OABAOB", 3)])
@each_constraint
def test_kicks_after_drifts_ask_the_closure_again(
    constraint: ConstraintCase, splitting: str, calls: int
) -> None:
    problem, opt = start(OBA, constraint, torch.float64, splitting=splitting)
    q, p = by_letters(constraint, splitting, 3)
    count = 0

    def closure() -> Tensor:
        nonlocal count
        count += 1
        problem.backward()
        return problem()

    for step in range(3):
        start_loss = problem().item()
        loss = opt.step(closure)
        assert loss.item() == start_loss
        assert count == calls * (step + 1)
        check_feasible(opt)
    expected = constraint.constraint.on(problem.weight.shape).lower(q)[0]
    torch.testing.assert_close(problem.weight.detach(), expected, rtol=1e-11, atol=1e-11)
    momentum = opt.state[problem.weight]["momentum"]
    torch.testing.assert_close(momentum, p.reshape(momentum.shape), rtol=1e-10, atol=1e-10)
    assert opt.state[problem.weight]["step"] == 3


def by_letters(constraint: ConstraintCase, splitting: str, steps: int) -> tuple[Tensor, Tensor]:
    """Steps letter by letter with the options of OBA; each B takes the gradient at the current weight."""
    problem = Problem(constraint, torch.float64)
    geometry = constraint.constraint.on(problem.weight.shape)
    h, gamma = OBA.options["lr"], OBA.options["friction"]
    q = geometry.lift(problem.weight.detach().unsqueeze(0))
    p = torch.zeros_like(q)
    for letter in splitting * steps:
        share = h / splitting.count(letter)
        if letter == "A":
            q, p = drift(geometry, q, p, share)
        elif letter == "B":
            weight = geometry.lower(q)
            p = kick(geometry, q, p, weight - problem.target, share)
        else:
            p = ornstein_uhlenbeck(geometry, q, p, math.exp(-gamma * share), 0.0, None)
    return q, p


def test_groups_with_different_splittings_share_the_closure() -> None:
    problem = Problem(by_id("circle"))
    groups = problem.groups()
    groups[0]["splitting"] = "ABO"
    opt = OBA.build(groups)
    plain, plain_opt = start(OBA, by_id("circle"))

    def closure() -> Tensor:
        problem.backward()
        return problem()

    opt.step(closure)
    train(plain, plain_opt, 1)
    assert_identical(problem.bias.detach(), plain.bias.detach())
    assert opt.state[problem.bias]["step"] == opt.state[problem.weight]["step"] == 1


@each_constraint
def test_failure_after_the_first_segment_restores_everything(constraint: ConstraintCase) -> None:
    """The second gradient of a step is NaN: weights and state stay as they were before the step."""
    problem, opt = start(NOISY, constraint, splitting="ABO")
    calls = 0

    def closure() -> Tensor:
        nonlocal calls
        calls += 1
        problem.backward()
        if calls == 4:
            problem.bias.grad.fill_(math.nan)
        return problem()

    opt.step(closure)
    before = snapshot(opt)
    with pytest.raises(cl.NonFiniteError, match="'bias'"):
        opt.step(closure)
    assert_identical(snapshot(opt), before)

    other, other_opt = start(NOISY, constraint, splitting="ABO")

    def other_closure() -> Tensor:
        other.backward()
        return other()

    other_opt.step(other_closure)
    for _ in range(2):
        opt.step(closure)
        other_opt.step(other_closure)
    assert_identical(snapshot(opt), snapshot(other_opt))


def test_first_step_that_fails_half_way_leaves_no_state() -> None:
    problem, opt = start(OBA, by_id("circle"), splitting="ABO")
    before = snapshot(opt)

    def closure() -> Tensor:
        problem.backward()
        if opt.state.get(problem.weight):
            raise RuntimeError("out of data")
        return problem()

    with pytest.raises(RuntimeError, match="out of data"):
        opt.step(closure)
    assert_identical(snapshot(opt), before)
