"""Free parameters without noise follow ``torch.optim.SGD``: lr = h^2, momentum = e^(-gamma h).

A real problem: a ReLU network of 64-64-10 units on scikit-learn's digits, 1,000 minibatches.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import colangevin as cl
from tests.optim_db import assert_identical

STEPS = 1000
CYCLED = 300
BATCH = 32

Build = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
Schedule = Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]

SCHEDULES: dict[str, Schedule] = {
    "constant": lambda opt: torch.optim.lr_scheduler.StepLR(opt, STEPS + 1),
    "step": lambda opt: torch.optim.lr_scheduler.StepLR(opt, 300, 0.5),
    "cosine": lambda opt: torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS),
    # these two cycle the momentum as well
    "one cycle": lambda opt: torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=CYCLED + 1),
    "cyclic": lambda opt: torch.optim.lr_scheduler.CyclicLR(opt, 0.01, 0.1, CYCLED // 4),
}


@functools.cache
def digits() -> tuple[Tensor, Tensor]:
    x, y = load_digits(return_X_y=True)
    return torch.tensor(x) / 16, torch.tensor(y)


def train(build: Build, schedule: Schedule, dtype: torch.dtype, steps: int = STEPS) -> list[Tensor]:
    """The weights of a network after training; the run itself draws nothing from torch's generator."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(dtype)
    batches = torch.Generator().manual_seed(1)
    x, y = digits()
    x = x.to(dtype)
    optimizer = build(list(model.parameters()))
    scheduler = schedule(optimizer)
    for _ in range(steps):
        batch = torch.randint(len(x), (BATCH,), generator=batches)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
        scheduler.step()
    accuracy = (model(x).argmax(1) == y).double().mean().item()
    assert accuracy > 0.9  # both learn: they do not merely agree on standing still
    return [parameter.detach() for parameter in model.parameters()]


@functools.cache
def by_sgd(momentum: float, weight_decay: float, schedule: str, dtype: torch.dtype) -> list[Tensor]:
    def build(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, 0.1, momentum=momentum, weight_decay=weight_decay)

    return train(build, SCHEDULES[schedule], dtype)


def relative_difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    errors = [(a - b).abs().max() / b.abs().max() for a, b in zip(ours, theirs, strict=True)]
    return max(float(error) for error in errors)


@pytest.mark.parametrize("schedule", ["step", "cosine"])
@pytest.mark.parametrize("weight_decay", [0.0, 1e-4])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_constrained_sgd_without_constraints_is_sgd_bit_for_bit(
    dtype: torch.dtype, momentum: float, weight_decay: float, schedule: str
) -> None:
    def build(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return cl.ConstrainedSGD(parameters, 0.1, momentum=momentum, weight_decay=weight_decay)

    ours = train(build, SCHEDULES[schedule], dtype)
    assert_identical(ours, by_sgd(momentum, weight_decay, schedule, dtype))


@pytest.mark.parametrize("schedule", ["one cycle", "cyclic"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_a_cycled_momentum_is_sgd_s_bit_for_bit(dtype: torch.dtype, schedule: str) -> None:
    """SGD's call as it stands: lr and momentum by position, and its other options as SGD has them."""
    options = {"dampening": 0, "weight_decay": 1e-4, "nesterov": False, "foreach": None, "fused": None}
    momenta: dict[type[torch.optim.Optimizer], list[float]] = {}

    def run(kind: type[torch.optim.Optimizer]) -> list[Tensor]:
        def build(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
            made = kind(parameters, 0.1, 0.9, **options)
            seen = momenta.setdefault(kind, [])
            made.register_step_pre_hook(lambda opt, *_: seen.append(opt.param_groups[0]["momentum"]))
            return made

        return train(build, SCHEDULES[schedule], dtype, CYCLED)

    assert_identical(run(cl.ConstrainedSGD), run(torch.optim.SGD))
    assert momenta[cl.ConstrainedSGD] == momenta[torch.optim.SGD]
    bounds = (0.85, 0.95) if schedule == "one cycle" else (0.8, 0.9)
    seen = momenta[cl.ConstrainedSGD]
    assert (min(seen), max(seen)) == pytest.approx(bounds, abs=1e-2)


@pytest.mark.parametrize("weight_decay", [0.0, 1e-4])
def test_colud_is_sgd_with_lr_h_squared(weight_decay: float) -> None:
    h = math.sqrt(0.1)
    friction = -math.log(0.9) / h

    def build(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return cl.CoLud(parameters, h, friction=friction, weight_decay=weight_decay)

    theirs = by_sgd(0.9, weight_decay, "constant", torch.float64)
    assert relative_difference(train(build, SCHEDULES["constant"], torch.float64), theirs) <= 1e-12


def test_colod_is_sgd_with_lr_h() -> None:
    ours = train(lambda parameters: cl.CoLod(parameters, 0.1), SCHEDULES["step"], torch.float64)
    assert relative_difference(ours, by_sgd(0.0, 0.0, "step", torch.float64)) <= 1e-12


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9, "weight_decay": 1e-4}], ids=["plain", "momentum"])
def test_run_without_noise_leaves_the_generator_alone(options: dict[str, Any]) -> None:
    def after(kind: type[torch.optim.Optimizer]) -> Tensor:
        train(lambda parameters: kind(parameters, 0.1, **options), SCHEDULES["constant"], torch.float32, 400)
        return torch.rand(4)

    assert_identical(after(cl.ConstrainedSGD), after(torch.optim.SGD))


def few_steps(optimizer: torch.optim.Optimizer, weight: nn.Parameter, momenta: list[float]) -> Tensor:
    """Quadratic steps with a momentum for each."""
    for momentum in momenta:
        optimizer.param_groups[0]["momentum"] = momentum
        weight.grad = 3 * weight.detach()
        optimizer.step()
    return weight.detach()


@pytest.mark.parametrize("options", [{}, {"maximize": True, "weight_decay": 0.1}], ids=["plain", "maximize"])
def test_momentum_may_come_and_go_as_in_sgd(options: dict[str, Any]) -> None:
    momenta = [0.9, 0.5, 0.0, 0.0, 0.95, 0.0, 0.3]
    ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 5)) for _ in range(2))
    few_steps(cl.ConstrainedSGD([ours], 0.05, momentum=0.9, **options), ours, momenta)
    few_steps(torch.optim.SGD([theirs], 0.05, momentum=0.9, **options), theirs, momenta)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)


def test_gradients_that_come_late_or_miss_steps_as_in_sgd() -> None:
    def run(kind: type[torch.optim.Optimizer]) -> Tensor:
        weights = [nn.Parameter(torch.linspace(-1, 1, 5)) for _ in range(2)]
        optimizer = kind(weights, 0.05, momentum=0.9)
        for step in range(6):
            weights[0].grad = weights[0].detach().clone()
            weights[1].grad = weights[1].detach().clone() if step in {2, 3, 5} else None
            optimizer.step()
        return torch.stack([weight.detach() for weight in weights])

    assert_identical(run(cl.ConstrainedSGD), run(torch.optim.SGD))


def test_constraints_elsewhere_leave_free_parameters_with_sgd() -> None:
    """Free parameters follow SGD beside constrained ones, given the same gradients."""
    free, theirs = (nn.Parameter(torch.linspace(-1, 1, 5)) for _ in range(2))
    held = nn.Parameter(torch.eye(3))
    ours = cl.ConstrainedSGD(
        [{"params": [held], "constraint": cl.Orthogonal()}, {"params": [free]}], 0.1, momentum=0.9
    )
    sgd = torch.optim.SGD([theirs], 0.1, momentum=0.9)
    g = torch.Generator().manual_seed(0)
    for _ in range(10):
        held.grad = torch.randn(3, 3, generator=g)
        free.grad = torch.randn(5, generator=g)
        theirs.grad = free.grad.clone()
        ours.step()
        sgd.step()
    assert_identical(free.detach(), theirs.detach())
