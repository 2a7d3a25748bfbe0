"""Splittings that need several gradients a step: closures that add, steps that break off half-way."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim_db import (
    ConstraintCase,
    Problem,
    assert_identical,
    by_id,
    check_feasible,
    each_constraint,
    snapshot,
    start,
)

NOISY = by_id("colud-OBA-noisy")


def begin(constraint: ConstraintCase, splitting: str = "OBABO") -> tuple[Problem, cl.CoLud]:
    return start(NOISY, constraint, splitting=splitting)


@each_constraint
def test_a_step_counts_when_it_is_complete(constraint: ConstraintCase) -> None:
    """A weight that an unfinished first step wrote is lifted again; one that a step left is read as it is."""
    problem, opt = begin(constraint, "ABOBA")
    counted = []

    def closure() -> Tensor:
        counted.append("step" in opt.state.get(problem.weight, {}))
        problem.backward()
        return problem()

    opt.step(closure)
    opt.step(closure)
    calls = len(counted) // 2
    assert counted == [False] * calls + [True] * calls
    assert calls > 1


# ---- closures -------------------------------------------------------------------------------------------


@each_constraint
@pytest.mark.parametrize("splitting", ["OBABO", "ABOBA"])
def test_a_closure_that_adds_to_the_gradient_is_refused(constraint: ConstraintCase, splitting: str) -> None:
    """As Lightning's with accumulate_grad_batches: it clears the gradient only before the first batch."""
    problem, opt = begin(constraint, splitting)
    problem.backward()

    def closure() -> Tensor:
        problem().backward()
        return problem()

    before = snapshot(opt)
    with pytest.raises(
        cl.SplittingError, match=f"splitting='{splitting}'.*added.*zero_grad.*accumulate_grad_b"
    ):
        opt.step(closure)
    assert_identical(snapshot(opt), before)
    assert bool(problem.weight.grad.isfinite().all())


def cleared_to_none(problem: Problem) -> None:
    problem.zero_grad(set_to_none=True)


def cleared_in_place(problem: Problem) -> None:
    problem.zero_grad(set_to_none=False)


def replaced(problem: Problem) -> None:
    for parameter in problem.parameters():
        parameter.grad = torch.zeros_like(parameter)


@each_constraint
@pytest.mark.parametrize("clear", [cleared_to_none, cleared_in_place, replaced], ids=lambda f: f.__name__)
def test_any_way_to_clear_gradients_gives_the_same_step(
    constraint: ConstraintCase, clear: Callable[[Problem], None]
) -> None:
    def run(clear: Callable[[Problem], None]) -> dict[str, object]:
        problem, opt = begin(constraint)

        def closure() -> Tensor:
            clear(problem)
            loss = problem()
            loss.backward()
            return loss

        for _ in range(2):
            opt.step(closure)
            check_feasible(opt)
        return snapshot(opt)

    assert_identical(run(clear), run(cleared_to_none))


def test_a_gradient_of_nan_is_told_from_one_that_was_added() -> None:
    problem, opt = begin(by_id("circle"))
    calls = 0

    def closure() -> Tensor:
        nonlocal calls
        calls += 1
        cleared_in_place(problem)
        loss = problem() * (math.nan if calls == 2 else 1.0)
        loss.backward()
        return loss

    with pytest.raises(cl.NonFiniteError, match="'weight'"):
        opt.step(closure)


# ---- undoing --------------------------------------------------------------------------------------------


class Late(nn.Module):
    """A weight that takes part from the second evaluation on."""

    def __init__(self) -> None:
        super().__init__()
        self.early = nn.Parameter(torch.full((3,), 0.2))
        self.late = nn.Parameter(torch.full((3,), 0.3))


@pytest.mark.parametrize("interrupt", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_step_that_breaks_off_leaves_no_trace(interrupt: type[BaseException]) -> None:
    model = Late()
    groups = cl.constrain(model, {"*": cl.Circle(1.0)})
    opt = cl.CoLud(groups, 0.1, friction=1.0, temperature=0.1, splitting="ABABAO", seed=0)
    calls = 0

    def closure() -> Tensor:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise interrupt
        opt.zero_grad()
        loss = (model.early - 1).square().sum()
        if calls % 3 == 2:
            loss = loss + (model.late - 1).square().sum()
        loss.backward()
        return loss

    before = snapshot(opt)
    with pytest.raises(interrupt):
        opt.step(closure)
    assert_identical(snapshot(opt), before)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("length", [63, 64, 65, 100])
@pytest.mark.parametrize("splitting", ["OBABO", "OABAO"])
def test_long_rows_with_slack(rows: int, length: int, splitting: str) -> None:
    """The stored rows are padded, and a letter that leaves q as it is hands the stored one back."""
    weight = nn.Parameter(torch.linspace(-0.05, 0.05, rows * length).view(rows, length))
    opt = cl.CoLud(
        [{"params": [weight], "constraint": cl.Sphere(1.0)}], 0.1, friction=1.0, splitting=splitting, seed=0
    )

    def closure() -> Tensor:
        opt.zero_grad()
        loss = (weight - 1).square().sum()
        loss.backward()
        return loss

    losses = [float(opt.step(closure).detach()) for _ in range(4)]
    check_feasible(opt)
    assert losses[-1] < losses[0]
