"""Torch's learning rate schedulers: the optimizer follows them, and both resume together."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import SGD, Optimizer, lr_scheduler
from torch.optim.swa_utils import SWALR
from torch.testing._internal.common_utils import parametrize

from tests.optim_db import Problem, assert_identical, snapshot, train
from tests.torch_contract.infos import ConstrainedInfo, TestCase, each_info, on_the_cpu

Scheduler = lr_scheduler.LRScheduler
LR = 0.05
STEPS = 3


def rising(step: int) -> float:
    return step / STEPS


def damped(step: int) -> float:
    return 0.9


def sequential(opt: Optimizer) -> Scheduler:
    parts = [lr_scheduler.ConstantLR(opt, 0.5, 2), lr_scheduler.ExponentialLR(opt, 0.7)]
    return lr_scheduler.SequentialLR(opt, parts, milestones=[2])


def chained(opt: Optimizer) -> Scheduler:
    return lr_scheduler.ChainedScheduler([lr_scheduler.LinearLR(opt), lr_scheduler.ExponentialLR(opt, 0.7)])


SCHEDULERS: dict[str, Callable[[Optimizer], Scheduler]] = {
    "StepLR": lambda opt: lr_scheduler.StepLR(opt, 2, 0.5),
    "MultiStepLR": lambda opt: lr_scheduler.MultiStepLR(opt, [1, 3], 0.5),
    "ConstantLR": lambda opt: lr_scheduler.ConstantLR(opt, 0.5, 2),
    "LinearLR": lr_scheduler.LinearLR,
    "ExponentialLR": lambda opt: lr_scheduler.ExponentialLR(opt, 0.8),
    "PolynomialLR": lambda opt: lr_scheduler.PolynomialLR(opt, 8),
    "CosineAnnealingLR": lambda opt: lr_scheduler.CosineAnnealingLR(opt, 8),
    "CosineAnnealingWarmRestarts": lambda opt: lr_scheduler.CosineAnnealingWarmRestarts(opt, 3),
    "LambdaLR from 0": lambda opt: lr_scheduler.LambdaLR(opt, rising),
    "MultiplicativeLR": lambda opt: lr_scheduler.MultiplicativeLR(opt, damped),
    "CyclicLR": lambda opt: lr_scheduler.CyclicLR(opt, 0.01, 0.1, 2, cycle_momentum=False),
    "OneCycleLR": lambda opt: lr_scheduler.OneCycleLR(opt, 0.1, total_steps=12, cycle_momentum=False),
    "SequentialLR": sequential,
    "ChainedScheduler": chained,
    "SWALR": lambda opt: SWALR(opt, swa_lr=0.01, anneal_epochs=3),
}


def course(problem: Problem, opt: Optimizer, scheduler: Scheduler, steps: int) -> list[list[float]]:
    """Train under a scheduler; the rates in use."""
    rates = []
    for _ in range(steps):
        rates.append([float(group["lr"]) for group in opt.param_groups])
        train(problem, opt, 1)
        scheduler.step()
    return rates


@functools.cache
def rates_of_sgd(scheduler: str) -> list[list[float]]:
    """The course of the rates of torch's SGD."""
    opt = SGD([{"params": [torch.ones(1)]}, {"params": [torch.ones(1)]}], lr=LR)
    schedule = SCHEDULERS[scheduler](opt)
    rates = []
    for _ in range(STEPS):
        rates.append([group["lr"] for group in opt.param_groups])
        opt.step()
        schedule.step()
    assert len({rate for rate, _ in rates}) > 1
    return rates


class TestSchedulers(TestCase):
    @parametrize("scheduler", list(SCHEDULERS))
    @each_info
    def test_the_rates_are_used(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, scheduler: str
    ) -> None:
        """A run under a scheduler is the run whose rates were written into the groups by hand.

        The rates are torch's own for SGD, also where they lie in one tensor that the groups share.
        """
        options, expected = optim_info.noisy_options, rates_of_sgd(scheduler)
        lr = torch.tensor(LR, dtype=torch.float64)
        problem, opt = optim_info.start(device, dtype, **{**options, "lr": lr})
        rates = course(problem, opt, SCHEDULERS[scheduler](opt), STEPS)
        torch.testing.assert_close(torch.tensor(rates), torch.tensor(expected))
        other, other_opt = optim_info.start(device, dtype, **options)
        for rates_of_groups in rates:
            for group, rate in zip(other_opt.param_groups, rates_of_groups, strict=True):
                group["lr"] = rate
            train(other, other_opt, 1)
        assert_identical(dict(problem.state_dict()), dict(other.state_dict()))

    @parametrize("scheduler", ["StepLR", "OneCycleLR", "SequentialLR", "SWALR"])
    @each_info
    def test_both_resume(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, scheduler: str
    ) -> None:
        options = {**optim_info.noisy_options, "lr": LR}
        problem, opt = optim_info.start(device, dtype, **options)
        schedule = SCHEDULERS[scheduler](opt)
        begun = course(problem, opt, schedule, 2)
        saved = copy.deepcopy((problem.state_dict(), opt.state_dict(), schedule.state_dict()))
        other, other_opt = optim_info.start(device, dtype, **options)
        other_schedule = SCHEDULERS[scheduler](other_opt)
        for each, state in zip((other, other_opt, other_schedule), saved, strict=True):
            each.load_state_dict(state)
        resumed = course(other, other_opt, other_schedule, STEPS - 2)
        assert resumed == course(problem, opt, schedule, STEPS - 2)
        assert begun + resumed == rates_of_sgd(scheduler)
        assert_identical(snapshot(other_opt), snapshot(opt))

    @each_info
    def test_a_plateau(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        """Each group has a tensor of its own: torch reduces one that is shared once a group."""
        for rates in ((LR, LR), (torch.tensor(LR), torch.tensor(LR))):
            problem = optim_info.problem(device, dtype)
            groups = [{**group, "lr": rate} for group, rate in zip(problem.groups(), rates, strict=True)]
            opt = optim_info.build(groups)
            scheduler = lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0)
            for divisor in (1, 2, 4):
                train(problem, opt, 1)
                scheduler.step(1.0)  # no better than before
                reduced = torch.tensor([float(group["lr"]) for group in opt.param_groups])
                torch.testing.assert_close(reduced, torch.full((2,), LR / divisor))

    @parametrize("scheduler", ["CyclicLR", "OneCycleLR"])
    @each_info
    def test_cycled_momentum(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, scheduler: str
    ) -> None:
        """The momentum follows, and a resumed run follows the same course."""
        bounds = {"base_momentum": 0.7, "max_momentum": 0.95}
        build: dict[str, Callable[[Optimizer], Any]] = {
            "CyclicLR": lambda opt: lr_scheduler.CyclicLR(opt, 0.01, 0.1, 2, **bounds),
            "OneCycleLR": lambda opt: lr_scheduler.OneCycleLR(opt, 0.1, total_steps=6, **bounds),
        }

        def start() -> tuple[Problem, Optimizer, Any]:
            problem, opt = optim_info.noisy_start(device, dtype)
            return problem, opt, build[scheduler](opt)

        def go_on(problem: Problem, opt: Optimizer, schedule: Any, steps: int) -> list[float]:
            momenta = []
            for _ in range(steps):
                group = opt.param_groups[0]
                momenta.append(group["betas"][0] if "betas" in group else group["momentum"])
                train(problem, opt, 1)
                schedule.step()
            return momenta

        whole, other = start(), start()
        begun = go_on(*whole, 2)
        for each, original in zip(other, whole, strict=True):
            each.load_state_dict(copy.deepcopy(original.state_dict()))
        rest = go_on(*whole, 3)
        assert min(begun + rest) < 0.75 < 0.9 < max(begun + rest)
        assert go_on(*other, 3) == rest
        assert_identical(snapshot(other[1]), snapshot(whole[1]))

    @each_info
    def test_a_group_of_its_own_rate_keeps_the_ratio(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        problem = optim_info.problem(device, dtype)
        weight, bias = problem.groups()
        opt = optim_info.build([weight, {**bias, "lr": 0.01}], lr=0.04)
        rates = course(problem, opt, lr_scheduler.ExponentialLR(opt, 0.5), 3)
        assert rates == [[0.04, 0.01], [0.02, 0.005], [0.01, 0.0025]]


on_the_cpu(TestSchedulers, globals())
