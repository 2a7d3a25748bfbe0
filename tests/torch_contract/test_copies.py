"""Copies and pickles at every stage of a run, and optimizers that nobody needs any more."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer, lr_scheduler
from torch.testing._internal.common_utils import parametrize

import colangevin as cl
from tests.optim_db import Problem, assert_identical, snapshot, train
from tests.torch_contract.infos import ConstrainedInfo, TestCase, each_info, on_the_cpu


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def fresh(problem: Problem, opt: Optimizer) -> None:
    pass


def waiting(problem: Problem, opt: Optimizer) -> None:
    """Gradients are there, the step is not taken."""
    problem.backward()


def stepped(problem: Problem, opt: Optimizer) -> None:
    train(problem, opt, 1)


def cleared(problem: Problem, opt: Optimizer) -> None:
    train(problem, opt, 1)
    opt.zero_grad(set_to_none=False)


def loaded(problem: Problem, opt: Optimizer) -> None:
    train(problem, opt, 1)
    opt.load_state_dict(opt.state_dict())


def grown(problem: Problem, opt: Optimizer) -> None:
    train(problem, opt, 1)
    problem.late = torch.nn.Parameter(torch.ones(2))
    opt.add_param_group({"params": [("late", problem.late)], "lr": 0.01})


def scheduled(problem: Problem, opt: Optimizer) -> None:
    scheduler = lr_scheduler.StepLR(opt, 1, 0.5)
    train(problem, opt, 1)
    scheduler.step()


STAGES = (fresh, waiting, stepped, cleared, loaded, grown, scheduled)


class TestCopies(TestCase):
    @parametrize("copied", [copy.deepcopy, pickled])
    @each_info
    def test_every_stage_goes_on_alike(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, copied: Callable[[Any], Any]
    ) -> None:
        for stage in STAGES:
            print("stage:", stage.__name__)
            problem, opt = optim_info.noisy_start(device, dtype)
            stage(problem, opt)
            before = snapshot(opt)
            other, other_opt = copied(copied((problem, opt)))
            assert_identical(snapshot(other_opt), before)
            train(other, other_opt, 1)
            assert_identical(snapshot(opt), before)
            train(problem, opt, 1)
            assert_identical(snapshot(other_opt), snapshot(opt))

    @each_info
    def test_public_attributes(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            for copied in (copy.deepcopy, pickled):
                other = copied(opt)
                assert type(other) is type(opt)
                assert public(other) == public(opt)
                assert repr(other) == repr(opt)
                constraints = [group["constraint"] for group in other.param_groups]
                assert constraints == [group["constraint"] for group in opt.param_groups]

    @each_info
    def test_printing(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            for _ in range(2):
                text = repr(opt)
                assert text.startswith(optim_info.optim_cls.__name__)
                for group in opt.param_groups:
                    for option in ("constraint", "lr", "temperature"):
                        assert f"{option}: {group[option]}" in text
                train(problem, opt, 1)

    @each_info
    def test_a_copied_scheduler_moves_the_copy(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        problem, opt = optim_info.noisy_start(device, dtype)
        scheduler = lr_scheduler.StepLR(opt, 1, 0.5)
        train(problem, opt, 1)
        scheduler.step()
        other, other_opt, other_scheduler = copy.deepcopy((problem, opt, scheduler))
        rate = opt.param_groups[0]["lr"]
        train(other, other_opt, 1)
        other_scheduler.step()
        assert opt.param_groups[0]["lr"] == rate
        assert other_opt.param_groups[0]["lr"] == rate / 2
        train(problem, opt, 1)
        scheduler.step()
        assert_identical(snapshot(other_opt), snapshot(opt))

    @each_info
    def test_no_cycles_keep_an_optimizer_alive(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """Weights and state are freed when the last name goes, without waiting for the garbage collector."""
        problem, opt = optim_info.noisy_start(device, dtype)
        scheduler = lr_scheduler.LambdaLR(opt, lambda step: 1.0)
        train(problem, opt, 1)
        scheduler.step()
        weight, other = weakref.ref(problem.weight), weakref.ref(opt)
        gc.disable()
        try:
            del scheduler, opt
            assert other() is None
            del problem
            assert weight() is None
        finally:
            gc.enable()

    @each_info
    def test_diagnostics_of_a_copy(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        problem, opt = optim_info.noisy_start(device, dtype)
        train(problem, opt, 1)
        other = copy.deepcopy(opt)
        for measure in (cl.diagnostics.violation, cl.diagnostics.cotangency):
            assert measure(other) == measure(opt)


def public(opt: Optimizer) -> set[str]:
    return {name for name in vars(opt) if not name.startswith("_")}


on_the_cpu(TestCopies, globals())
