"""Hooks around ``step``, of one optimizer and of all, and hooks of gradients that call ``step``."""

import copy
import pickle
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.testing._internal.common_utils import parametrize

from tests.optim_db import assert_identical, check_feasible, snapshot, train
from tests.torch_contract.infos import ConstrainedInfo, TestCase, each_info, on_the_cpu


class TestStepHooks(TestCase):
    @parametrize("kind", ["pre", "post"])
    @each_info
    def test_until_removed(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, kind: str
    ) -> None:
        problem, opt = optim_info.noisy_start(device, dtype)
        calls: list[Any] = []
        moved: list[bool] = []
        start = problem.weight.detach().clone()

        def note(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            calls.append((optimizer, args, kwargs))
            moved.append(not torch.equal(problem.weight, start))

        handle = getattr(opt, f"register_step_{kind}_hook")(note)
        train(problem, opt, 2)
        opt.step(closure=None)
        assert moved == [kind == "post", True, True]
        # torch passes the optimizer as the first of the arguments, too
        assert calls == [(opt, (opt,), {}), (opt, (opt,), {}), (opt, (opt,), {"closure": None})]
        handle.remove()
        train(problem, opt, 1)
        assert len(calls) == 3

    @each_info
    def test_of_one_and_of_all_in_order(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        problem, opt = optim_info.noisy_start(device, dtype)
        sgd = SGD([torch.ones(2)], lr=0.1)
        calls: list[str] = []

        def note(word: str) -> Any:
            return lambda *_: calls.append(word)

        handles = [
            register_optimizer_step_pre_hook(note("before all")),
            register_optimizer_step_post_hook(note("after all")),
        ]
        try:
            for each in (opt, sgd):
                handles.append(each.register_step_pre_hook(note("before one")))
                handles.append(each.register_step_post_hook(note("after one")))
            once = ["before all", "before one", "after one", "after all"]
            train(problem, opt, 1)
            assert calls == once
            sgd.step()
            train(problem, opt, 1)
            assert calls == 3 * once
        finally:
            for handle in handles:
                handle.remove()
        train(problem, opt, 1)
        sgd.step()
        assert calls == 3 * once

    @each_info
    def test_that_replaces_the_arguments(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """A hook before the step may pass a closure of its own."""
        problem, opt = optim_info.noisy_start(device, dtype)
        plain, plain_opt = optim_info.noisy_start(device, dtype)

        def closure() -> Tensor:
            problem.backward()
            return problem().detach()

        expected = problem().item()
        opt.register_step_pre_hook(lambda opt, args, kwargs: (args, {"closure": closure}))
        assert opt.step().item() == expected
        train(plain, plain_opt, 1)
        assert_identical(snapshot(opt), snapshot(plain_opt))

    @each_info
    def test_that_edits_gradients_and_options(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        problem, opt = optim_info.noisy_start(device, dtype)
        plain, plain_opt = optim_info.noisy_start(device, dtype)

        def double(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            problem.weight.grad.mul_(2)
            optimizer.param_groups[1]["lr"] = 0.01

        opt.register_step_pre_hook(double)
        plain_opt.param_groups[1]["lr"] = 0.01
        for _ in range(2):
            problem.backward()
            opt.step()
            plain.backward()
            plain.weight.grad.mul_(2)
            plain_opt.step()
        check_feasible(opt)
        assert_identical(snapshot(opt), snapshot(plain_opt))

    @each_info
    def test_do_not_travel_with_copies(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """As in torch: hooks belong to the object, and one that cannot be pickled is no obstacle."""
        problem, opt = optim_info.noisy_start(device, dtype)
        calls: list[str] = []
        opt.register_step_pre_hook(lambda *_: calls.append("before"))
        opt.register_step_post_hook(lambda *_: calls.append("after"))
        opt.register_state_dict_post_hook(lambda *_: calls.append("saved"))
        opt.register_load_state_dict_post_hook(lambda *_: calls.append("loaded"))
        train(problem, opt, 1)
        copies = [copy.deepcopy((problem, opt)), pickle.loads(pickle.dumps((problem, opt)))]
        train(problem, opt, 1)
        for other, other_opt in copies:
            train(other, other_opt, 1)
            other_opt.state_dict()
            assert_identical(dict(other.state_dict()), dict(problem.state_dict()))
        assert calls == 2 * ["before", "after"]

    @each_info
    def test_the_profiler_names_the_step(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        problem, opt = optim_info.noisy_start(device, dtype)
        problem, opt = copy.deepcopy((problem, opt))
        problem.backward()
        with torch.autograd.profiler.profile() as profile:
            opt.step()
            opt.zero_grad()
        names = {event.name for event in profile.function_events}
        name = optim_info.optim_cls.__name__
        assert {f"Optimizer.step#{name}.step", f"Optimizer.zero_grad#{name}.zero_grad"} <= names

    @each_info
    def test_steps_within_the_backward_pass(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """One optimizer a parameter, which steps as soon as its gradient is there and frees it."""
        problem, opt = optim_info.start(device, dtype)
        other = optim_info.problem(device, dtype)
        optimizers = {group["params"][0][1]: optim_info.build([group]) for group in other.groups()}

        def step(parameter: Tensor) -> None:
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in other.parameters():
            parameter.register_post_accumulate_grad_hook(step)
        for _ in range(3):
            train(problem, opt, 1)
            other().backward()
            assert all(parameter.grad is None for parameter in other.parameters())
        assert_identical(dict(other.state_dict()), dict(problem.state_dict()))


on_the_cpu(TestStepHooks, globals())
