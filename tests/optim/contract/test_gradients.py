"""How gradients are read, and never modified: missing, late, maximized, decayed, clipped, scaled, huge."""

import math

import pytest
import torch

import colangevin as cl
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
    snapshot,
    start,
    train,
    whole_table,
)


@whole_table
def test_gradients_are_never_modified(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    problem, opt = start(optimizer, constraint, weight_decay=0.1, maximize=True)
    problem.backward()
    if not constraint.manifold.fallible:  # a fallible manifold would halve the step for a second
        problem.weight.grad[0] *= 1e15  # far above where the step cuts forces
    grads = [problem.weight.grad, problem.bias.grad]
    before = [g.clone() for g in grads]
    opt.step()
    check_feasible(opt)
    assert problem.weight.grad is grads[0]
    assert_identical(grads, before)


@whole_table
def test_missing_gradient_leaves_a_parameter_untouched(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    problem, opt = start(optimizer, constraint)
    train(problem, opt, 2)
    before = snapshot(opt)
    problem.backward()
    problem.weight.grad = None
    opt.step()
    after = snapshot(opt)
    assert_identical(after["weights"][0], before["weights"][0])
    assert_identical(after["state"][0], before["state"][0])
    assert not torch.equal(after["weights"][1], before["weights"][1])


@whole_table
def test_late_gradient_starts_as_if_the_run_began_then(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    late, late_opt = start(optimizer, constraint)
    for _ in range(3):
        late.backward()
        late.weight.grad = None
        late_opt.step()
    assert late.weight not in late_opt.state
    train(late, late_opt, 2)
    prompt, opt = start(optimizer, constraint)
    train(prompt, opt, 2)
    assert_identical(late.weight.detach(), prompt.weight.detach())


def test_no_gradients_at_all_is_no_step() -> None:
    _, opt = start(NOISY, by_id("circle"))
    before = snapshot(opt)
    opt.step()
    assert_identical(snapshot(opt), before)


@each_constraint
def test_frozen_parameter_stays(constraint: ConstraintCase) -> None:
    problem = Problem(constraint)
    problem.weight.requires_grad_(False)
    opt = NOISY.build(problem.groups())
    before = problem.weight.detach().clone()
    train(problem, opt, 2)
    assert_identical(problem.weight.detach(), before)
    problem.weight.requires_grad_(True)
    train(problem, opt, 1)
    assert not torch.equal(problem.weight, before)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad(set_to_none: bool) -> None:
    problem, opt = start(OBA, by_id("circle"))
    problem.backward()
    opt.zero_grad(set_to_none=set_to_none)
    grad = problem.weight.grad
    assert grad is None if set_to_none else not grad.any()


@whole_table
def test_maximize_is_the_negated_gradient(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    up, up_opt = start(optimizer, constraint, maximize=True)
    down, down_opt = start(optimizer, constraint)
    for _ in range(2):
        up.backward()
        down.backward()
        for parameter in down.parameters():
            parameter.grad.neg_()
        up_opt.step()
        down_opt.step()
    assert_identical(list(up.state_dict().values()), list(down.state_dict().values()))
    assert up().item() > Problem(constraint)().item()


def test_maximize_by_group() -> None:
    problem = Problem(by_id("circle"))
    groups = problem.groups()
    groups[1]["maximize"] = True
    opt = by_id("sgd").build(groups)
    bias = problem.bias.detach().clone()
    problem.backward()
    opt.step()
    torch.testing.assert_close(problem.bias.detach(), 1.05 * bias)


@whole_table
def test_weight_decay_adds_the_weight_to_the_gradient(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    if optimizer.preconditioned:
        pytest.skip("decoupled: tests/optim/test_decoupled_decay.py")
    decayed, decayed_opt = start(optimizer, constraint, torch.float64, weight_decay=0.3)
    plain, plain_opt = start(optimizer, constraint, torch.float64)
    for _ in range(2):
        decayed.backward()
        plain.backward()
        for parameter in plain.parameters():
            parameter.grad.add_(parameter.detach(), alpha=0.3)
        decayed_opt.step()
        plain_opt.step()
    torch.testing.assert_close(decayed.state_dict(), plain.state_dict(), rtol=1e-13, atol=1e-13)


@each_constraint
def test_clip_grad_norm(constraint: ConstraintCase) -> None:
    problem, opt = start(OBA, constraint)
    problem.backward()
    for parameter in problem.parameters():
        parameter.grad.mul_(100)
    torch.nn.utils.clip_grad_norm_(problem.parameters(), 0.1)
    before = problem.weight.detach().clone()
    opt.step()
    check_feasible(opt)
    assert 0 < (problem.weight - before).norm() < 0.1


@whole_table
def test_grad_scaler_skips_infinite_gradients(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    problem, opt = start(optimizer, constraint)
    plain, plain_opt = start(optimizer, constraint)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for overflow in (False, True, False):
        opt.zero_grad()
        scaler.scale(problem()).backward()
        if overflow:
            problem.bias.grad[0] = math.inf
        before = snapshot(opt)
        scaler.step(opt)
        scaler.update()
        if overflow:
            assert_identical(snapshot(opt), before)
        else:
            train(plain, plain_opt, 1)
    torch.testing.assert_close(problem.state_dict(), plain.state_dict(), rtol=1e-5, atol=1e-6)


@each_constraint
def test_huge_finite_gradients_leave_no_trace_of_nan(constraint: ConstraintCase) -> None:
    fallible, free = constraint.manifold.fallible, isinstance(constraint.constraint, cl.Free)
    # squares of roots grow as roots do times their gradients: two such steps in a row leave all numbers
    huge = 1e-10 if isinstance(constraint.constraint, cl.NonNegative) else 1e30 if free else 1e38
    schemes = (by_id("colod-noisy"), NOISY, by_id("sgd-momentum"), OBA)
    for optimizer in schemes[-1:] if fallible else schemes:
        problem, opt = start(optimizer, constraint)
        for size in (1e3, 1e10, huge, 1e-30, 1.0)[2 * fallible :]:
            problem.backward()
            problem.weight.grad.mul_(size / problem.weight.grad.abs().max())
            opt.step()
            check_feasible(opt)
