"""A compiled step is the step: ``torch.compile(optimizer.step)`` calls it and traces nothing of it."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch._dynamo.utils import counters

import colangevin as cl
from tests.optim_db import Problem, assert_identical, by_id, check_feasible, snapshot, start, train

# traces and decomposes as the default backend does, but needs no compiler of C++
BACKEND = "aot_eager"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No graphs of other tests."""
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def graphs() -> int:
    return counters["stats"]["unique_graphs"]


def compiled(optimizer: torch.optim.Optimizer) -> Callable[..., object]:
    return torch.compile(optimizer.step, backend=BACKEND)


def train_by(step: Callable[..., object], problem: Problem, optimizer: torch.optim.Optimizer) -> None:
    problem.backward()
    step()
    check_feasible(optimizer)


@pytest.mark.parametrize("optimizer", ["colod", "colod-noisy", "colud-BAOAB-noisy", "sgd-momentum"])
@pytest.mark.parametrize(
    "constraint", ["circle", "circle-radii", "sphere-slack", "orthogonal-wide", "implicit"]
)
def test_compiled_step_equals_the_eager_one(optimizer: str, constraint: str) -> None:
    problem, opt = start(by_id(optimizer), by_id(constraint), weight_decay=0.1)
    plain, plain_opt = start(by_id(optimizer), by_id(constraint), weight_decay=0.1)
    step = compiled(opt)
    for _ in range(3):
        train_by(step, problem, opt)
    train(plain, plain_opt, 3)
    assert_identical(problem.state_dict(), plain.state_dict())


def test_a_schedule_compiles_nothing_anew() -> None:
    problem, opt = start(by_id("colud-OBA"), by_id("circle"))
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    step, seen = compiled(opt), []
    for _ in range(6):
        train_by(step, problem, opt)
        schedule.step()
        seen.append(graphs())
    assert seen[2:] == [seen[1]] * 4


def test_nan_gradient_raises_before_anything_changes() -> None:
    problem, opt = start(by_id("sgd-momentum"), by_id("circle"))
    step = compiled(opt)
    train_by(step, problem, opt)
    before = snapshot(opt)
    problem.backward()
    problem.bias.grad[0] = torch.nan
    with pytest.raises(cl.NonFiniteError, match="'bias'"):
        step()
    assert_identical(snapshot(opt), before)


def test_edit_from_outside_is_respected() -> None:
    problem, opt = start(by_id("sgd-momentum"), by_id("circle"))
    step = compiled(opt)
    train_by(step, problem, opt)
    edited = by_id("circle").weight(seed=9)
    problem.weight.data.copy_(edited)
    opt.state[problem.weight]["momentum"].zero_()
    problem.zero_grad(set_to_none=False)
    step()
    torch.testing.assert_close(problem.weight.detach(), edited, rtol=1e-6, atol=0)
