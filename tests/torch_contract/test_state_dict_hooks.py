"""Hooks around ``state_dict`` and ``load_state_dict``: they see and may change what is saved and loaded."""

import copy
from typing import Any

import pytest
import torch
from torch.optim import Optimizer

import colangevin as cl
from tests.optim_db import Problem, assert_identical, check_feasible, snapshot, train
from tests.torch_contract.infos import ConstrainedInfo, TestCase, each_info, on_the_cpu

Dict = dict[str, Any]


def stepped(info: ConstrainedInfo, device: str, dtype: torch.dtype) -> tuple[Problem, Optimizer]:
    """A run with all there is to remember, after one step."""
    problem, opt = info.noisy_start(device, dtype)
    train(problem, opt, 1)
    return problem, opt


class TestSaving(TestCase):
    @each_info
    def test_before(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        problem, opt = stepped(optim_info, device, dtype)

        def mark(optimizer: Optimizer) -> None:
            optimizer.state["mark"] = 1

        handle = opt.register_state_dict_pre_hook(mark)
        assert opt.state_dict()["state"]["mark"] == 1
        train(problem, opt, 1)
        del opt.state["mark"]
        handle.remove()
        assert "mark" not in opt.state_dict()["state"]

    @each_info
    def test_after(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        """The hook has what the caller gets, and may change it or return another dict."""
        _, opt = stepped(optim_info, device, dtype)
        plain = opt.state_dict()
        seen = []

        def change(optimizer: Optimizer, state_dict: Dict) -> None:
            seen.append(copy.deepcopy(state_dict))
            state_dict["mark"] = 1

        def replace(optimizer: Optimizer, state_dict: Dict) -> Dict:
            return {**state_dict, "another": 2}

        opt.register_state_dict_post_hook(change)
        opt.register_state_dict_post_hook(replace)
        saved = opt.state_dict()
        assert (saved.pop("mark"), saved.pop("another")) == (1, 2)
        assert_identical(saved, plain)
        assert_identical(seen, [plain])

    @each_info
    def test_a_dict_without_groups(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """A hook may hand out anything, for instance a dict in another library's form."""
        _, opt = stepped(optim_info, device, dtype)
        opt.register_state_dict_post_hook(lambda optimizer, state_dict: {"form": "another"})
        assert opt.state_dict() == {"form": "another"}

    @each_info
    def test_before_and_after(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        _, opt = stepped(optim_info, device, dtype)

        def mark(optimizer: Optimizer) -> None:
            optimizer.state["mark"] = 1

        def unmark(optimizer: Optimizer, state_dict: Dict) -> Dict:
            state_dict["was marked"] = state_dict["state"].pop("mark", None) == 1
            return state_dict

        opt.register_state_dict_post_hook(unmark)
        assert not opt.state_dict()["was marked"]
        opt.register_state_dict_pre_hook(mark)
        saved = opt.state_dict()
        assert saved["was marked"]
        assert "mark" not in saved["state"]


class TestLoading(TestCase):
    @each_info
    def test_before_in_the_order_they_stand(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        _, opt = stepped(optim_info, device, dtype)
        saved = opt.state_dict()

        def in_place(optimizer: Optimizer, state_dict: Dict) -> None:
            state_dict["param_groups"][0]["lr"] = 0.002

        def by_another(optimizer: Optimizer, state_dict: Dict) -> Dict:
            another = copy.deepcopy(state_dict)
            another["param_groups"][0]["lr"] = 0.003
            return another

        opt.register_load_state_dict_pre_hook(in_place)
        opt.load_state_dict(copy.deepcopy(saved))
        assert opt.param_groups[0]["lr"] == 0.002
        handle = opt.register_load_state_dict_pre_hook(by_another)
        opt.load_state_dict(copy.deepcopy(saved))
        assert opt.param_groups[0]["lr"] == 0.003
        handle.remove()
        opt.register_load_state_dict_pre_hook(by_another, prepend=True)
        opt.load_state_dict(copy.deepcopy(saved))
        assert opt.param_groups[0]["lr"] == 0.002

    @each_info
    def test_a_state_that_a_hook_replaced_is_loaded(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        problem, opt = stepped(optim_info, device, dtype)

        def rewind(optimizer: Optimizer, state_dict: Dict) -> Dict:
            state = {key: {**each, "step": torch.tensor(41)} for key, each in state_dict["state"].items()}
            return {**state_dict, "state": state}

        saved = opt.state_dict()
        opt.register_load_state_dict_pre_hook(rewind)
        opt.load_state_dict(saved)
        assert [int(state["step"]) for state in opt.state.values()] == [41, 41]
        assert [int(state["step"]) for state in saved["state"].values()] == [1, 1]
        train(problem, opt, 1)
        assert [int(state["step"]) for state in opt.state.values()] == [42, 42]

    @each_info
    def test_a_hook_translates_another_library_s_dict(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """What is checked is what the hook returned, not what was passed."""
        problem, opt = stepped(optim_info, device, dtype)
        ours = copy.deepcopy(opt.state_dict())
        theirs = torch.optim.SGD([{"params": [p]} for p in problem.parameters()], lr=0.1).state_dict()
        handle = opt.register_load_state_dict_pre_hook(lambda optimizer, state_dict: copy.deepcopy(ours))
        opt.load_state_dict(theirs)
        assert_identical(opt.state_dict(), ours)
        handle.remove()
        with pytest.raises(cl.ConstraintError, match="names no constraint"):
            opt.load_state_dict(theirs)

    @each_info
    def test_a_hook_that_spoils_the_dict_changes_nothing(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        problem, opt = stepped(optim_info, device, dtype)
        saved = opt.state_dict()
        before = snapshot(opt)

        def spoil(optimizer: Optimizer, state_dict: Dict) -> Dict:
            return {**state_dict, "param_groups": state_dict["param_groups"][:1]}

        handle = opt.register_load_state_dict_pre_hook(spoil)
        with pytest.raises(cl.ConstraintError, match="1 parameter groups, the optimizer 2"):
            opt.load_state_dict(saved)
        assert_identical(snapshot(opt), before)
        handle.remove()
        train(problem, opt, 1)

    @each_info
    def test_after_the_optimizer_is_whole(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """A hook that runs after loading may step: constraints and state are there, in their own form."""
        problem, opt = stepped(optim_info, device, dtype)
        saved = copy.deepcopy(opt.state_dict())
        other = copy.deepcopy(problem)
        other_opt = optim_info.build(other.groups())
        seen = []

        def look(optimizer: Optimizer) -> None:
            seen.append(copy.deepcopy(optimizer.state_dict()))
            check_feasible(optimizer)
            train(other, optimizer, 1)

        other_opt.register_load_state_dict_post_hook(look)
        other_opt.load_state_dict(saved)
        assert_identical(seen, [saved])
        train(problem, opt, 1)
        assert_identical(snapshot(other_opt), snapshot(opt))

    @each_info
    def test_before_and_after(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        _, opt = stepped(optim_info, device, dtype)

        def slow_down(optimizer: Optimizer, state_dict: Dict) -> Dict:
            another = copy.deepcopy(state_dict)
            another["param_groups"][0]["lr"] = 0.003
            return another

        rates = []
        opt.register_load_state_dict_pre_hook(slow_down)
        opt.register_load_state_dict_post_hook(lambda each: rates.append(each.param_groups[0]["lr"]))
        opt.load_state_dict(opt.state_dict())
        assert rates == [0.003]


on_the_cpu(TestSaving, globals())
on_the_cpu(TestLoading, globals())
