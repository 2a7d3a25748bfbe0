"""State dicts: saved and loaded in every way torch allows, a run goes on as if nothing had happened."""

import copy
import inspect
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.optim import SGD, Adam, Optimizer
from torch.testing._internal.common_utils import parametrize

import colangevin as cl
from tests.optim_db import Problem, assert_identical, kept_in, snapshot, train
from tests.torch_contract.infos import ConstrainedInfo, TestCase, each_info, on_the_cpu

Dict = dict[str, Any]


def through_file(saved: Dict, *, weights_only: bool = True) -> Dict:
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


def unnamed(groups: list[Dict]) -> list[Dict]:
    return [{**group, "params": [parameter for _, parameter in group["params"]]} for group in groups]


def nameless(saved: Dict) -> Dict:
    groups = [{k: v for k, v in group.items() if k != "param_names"} for group in saved["param_groups"]]
    return {**saved, "param_groups": groups}


def twin(info: ConstrainedInfo, problem: Problem, opt: Optimizer, *, named: bool = True) -> Any:
    """Another problem with the same weights, and an optimizer for it that has not moved yet."""
    other = copy.deepcopy(problem)
    options = {
        key: opt.defaults[key] for key in inspect.signature(type(opt)).parameters if key in opt.defaults
    }
    return other, info.build(other.groups() if named else unnamed(other.groups()), **options)


def check_same_course(problem: Problem, opt: Optimizer, other: Problem, other_opt: Optimizer) -> None:
    train(problem, opt, 1)
    train(other, other_opt, 1)
    ours, theirs = snapshot(opt), snapshot(other_opt)
    assert_identical(nameless(ours), nameless(theirs))


class TestRoundTrip(TestCase):
    @parametrize("one_is_named", [True, False])
    @parametrize("other_is_named", [True, False])
    @each_info
    def test_named_and_unnamed(
        self,
        device: str,
        dtype: torch.dtype,
        optim_info: ConstrainedInfo,
        one_is_named: bool,
        other_is_named: bool,
    ) -> None:
        for options in optim_info.option_sets():
            problem = optim_info.problem(device, dtype)
            groups = problem.groups()
            opt = optim_info.build(groups if one_is_named else unnamed(groups), **options)
            train(problem, opt, 1)
            other, other_opt = twin(optim_info, problem, opt, named=other_is_named)
            saved = copy.deepcopy(opt.state_dict())
            given = copy.deepcopy(saved)
            other_opt.load_state_dict(given)
            assert_identical(given, saved)
            assert_identical(nameless(other_opt.state_dict()), nameless(saved))
            names = [group.get("param_names") for group in other_opt.param_groups]
            assert names == ([["weight"], ["bias"]] if one_is_named or other_is_named else [None, None])
            check_same_course(problem, opt, other, other_opt)

    @parametrize("weights_only", [True, False])
    @each_info
    def test_through_a_file(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, weights_only: bool
    ) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            for _ in range(2):  # before the first step and after it
                saved = opt.state_dict()
                assert_identical(through_file(saved, weights_only=weights_only), saved)
                train(problem, opt, 1)

    @each_info
    def test_twice(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            weights, saved = copy.deepcopy(problem.state_dict()), copy.deepcopy(opt.state_dict())
            other, other_opt = twin(optim_info, problem, opt)
            for _ in range(3):
                other.load_state_dict(weights)
                other_opt.load_state_dict(saved)
                assert_identical(other_opt.state_dict(), saved)
                train(other, other_opt, 1)
            other.load_state_dict(weights)
            other_opt.load_state_dict(saved)
            check_same_course(problem, opt, other, other_opt)

    @each_info
    def test_into_itself(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            other, other_opt = twin(optim_info, problem, opt)
            train(other, other_opt, 1)
            train(problem, opt, 1)
            opt.load_state_dict(opt.state_dict())
            opt.load_state_dict(opt.state_dict())
            check_same_course(problem, opt, other, other_opt)

    @parametrize("way", ["deepcopy", "pickle", "loaded"])
    @each_info
    def test_into_a_copy_and_back(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, way: str
    ) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            saved = copy.deepcopy(opt.state_dict())
            other, other_opt = COPIES[way](optim_info, problem, opt)
            assert_identical(other_opt.state_dict()["state"], saved["state"])
            other_opt.load_state_dict(saved)
            back = other_opt.state_dict()
            opt.load_state_dict(back)
            other_opt.load_state_dict(opt.state_dict())
            check_same_course(problem, opt, other, other_opt)

    @each_info
    def test_a_run_that_has_not_begun(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """Loading a state dict that was saved before the first step takes an optimizer back to there."""
        for problem, opt in optim_info.starts(device, dtype):
            other, other_opt = twin(optim_info, problem, opt)
            weights, saved = copy.deepcopy(problem.state_dict()), copy.deepcopy(opt.state_dict())
            train(problem, opt, 2)
            problem.load_state_dict(weights)
            opt.load_state_dict(saved)
            assert not opt.state
            check_same_course(problem, opt, other, other_opt)

    @each_info
    def test_some_parameters_have_no_state(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            problem.weight.requires_grad_(False)
            train(problem, opt, 1)
            other, other_opt = twin(optim_info, problem, opt)
            other_opt.load_state_dict(through_file(opt.state_dict()))
            assert list(other_opt.state) == [other.bias]
            for each in (problem, other):
                each.weight.requires_grad_(True)
            check_same_course(problem, opt, other, other_opt)

    @each_info
    def test_loaded_tensors_are_its_own(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            other, other_opt = twin(optim_info, problem, opt)
            other_opt.load_state_dict(opt.state_dict())
            before = snapshot(opt)
            train(other, other_opt, 1)
            assert_identical(snapshot(opt), before)


def _deep_copy(info: ConstrainedInfo, problem: Problem, opt: Optimizer) -> tuple[Problem, Optimizer]:
    return copy.deepcopy((problem, opt))


def _pickled(info: ConstrainedInfo, problem: Problem, opt: Optimizer) -> tuple[Problem, Optimizer]:
    return pickle.loads(pickle.dumps((problem, opt)))


def _loaded(info: ConstrainedInfo, problem: Problem, opt: Optimizer) -> tuple[Problem, Optimizer]:
    other, other_opt = twin(info, problem, opt)
    other_opt.load_state_dict(opt.state_dict())
    return other, other_opt


COPIES: dict[str, Callable[..., tuple[Problem, Optimizer]]] = {
    "deepcopy": _deep_copy,
    "pickle": _pickled,
    "loaded": _loaded,
}


class TestOtherDicts(TestCase):
    """Dicts that this very optimizer did not write."""

    @parametrize("present", [True, False])
    @each_info
    def test_flags_of_torch(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, present: bool
    ) -> None:
        """Dicts of older and newer torch, with and without the flags that torch adds to groups."""
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            other, other_opt = twin(optim_info, problem, opt)
            saved = copy.deepcopy(opt.state_dict())
            for group in saved["param_groups"]:
                for flag in optim_info.not_og_supported_flags:
                    group.pop(flag, None)
                    if present:
                        group[flag] = False
            other_opt.load_state_dict(saved)
            opt.load_state_dict(saved)
            check_same_course(problem, opt, other, other_opt)

    @each_info
    def test_keys_in_another_order(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """Torch calls parameters 0, 1, ...; a dict may call them otherwise, and list them in any order."""
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            other, other_opt = twin(optim_info, problem, opt)
            saved = copy.deepcopy(opt.state_dict())
            keys = {0: "a weight", 1: 0}
            for group in saved["param_groups"]:
                group["params"] = [keys[key] for key in group["params"]]
            saved["param_groups"] = [dict(reversed(group.items())) for group in saved["param_groups"]]
            saved["state"] = {keys[key]: state for key, state in reversed(saved["state"].items())}
            other_opt.load_state_dict(saved)
            check_same_course(problem, opt, other, other_opt)

    @each_info
    def test_what_others_added_to_groups_is_kept(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """Schedulers write into groups, and hooks into the state of the optimizer as a whole."""
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            opt.param_groups[0]["initial_lr"] = 0.3
            opt.state["everywhere"] = 4
            other, other_opt = twin(optim_info, problem, opt)
            other_opt.load_state_dict(through_file(opt.state_dict()))
            assert other_opt.param_groups[0]["initial_lr"] == 0.3
            assert other_opt.state["everywhere"] == 4
            check_same_course(problem, opt, other, other_opt)

    @each_info
    def test_what_others_added_to_a_state_is_kept(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """Averages and counts of others live beside ours: a checkpoint that holds them still loads."""
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            average = problem.weight.detach().clone()
            opt.state[problem.weight].update(average=average, count=5)
            other, other_opt = twin(optim_info, problem, opt)
            other_opt.load_state_dict(through_file(opt.state_dict()))
            check_same_course(problem, opt, other, other_opt)
            assert other_opt.state[other.weight]["count"] == 5
            assert_identical(other_opt.state[other.weight]["average"], average)

    @each_info
    def test_step_count_that_is_no_tensor(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            other, other_opt = twin(optim_info, problem, opt)
            saved = copy.deepcopy(opt.state_dict())
            for state in saved["state"].values():
                state["step"] = int(state["step"])
            other_opt.load_state_dict(saved)
            check_same_course(problem, opt, other, other_opt)

    @parametrize("foreign", [SGD, Adam])
    @each_info
    def test_another_library_s_dict_changes_nothing(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, foreign: type[Optimizer]
    ) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            other = copy.deepcopy(problem)
            theirs = foreign([{"params": [other.weight]}, {"params": [other.bias]}], lr=0.1)
            theirs.step()
            before = snapshot(opt)
            with pytest.raises(cl.ConstraintError, match="group 0 names no constraint"):
                opt.load_state_dict(theirs.state_dict())
            assert_identical(snapshot(opt), before)
            train(problem, opt, 1)


OTHERS = {
    torch.float32: (torch.float64, torch.bfloat16, torch.float16),
    torch.float64: (torch.float32, torch.bfloat16),
    torch.bfloat16: (torch.float32, torch.float64, torch.float16),
}


class TestCast(TestCase):
    @parametrize("saved_in", list(OTHERS))
    @each_info
    def test_into_parameters_of_another_dtype(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, saved_in: torch.dtype
    ) -> None:
        """The state follows the parameters: float32 for coarse ones, else their own dtype.

        Weights of one dtype are not feasible in another, so the parameters have others, and no momentum.
        """
        for options in optim_info.option_sets():
            for loaded_in in OTHERS[saved_in]:
                print(saved_in, "to", loaded_in)
                problem, opt = optim_info.start(device, saved_in, **options)
                train(problem, opt, 1)
                for state in opt.state.values():
                    state.get("momentum", torch.empty(0)).zero_()
                other = optim_info.problem(device, loaded_in, seed=1)
                other_opt = optim_info.build(other.groups(), **options)
                other_opt.load_state_dict(through_file(opt.state_dict()))
                for group in other_opt.param_groups:
                    state = other_opt.state[group["params"][0]]
                    floats = [value.dtype for key, value in state.items() if key != "step"]
                    assert set(floats) <= {kept_in(type(opt), group["constraint"], loaded_in)}
                    assert state["step"] == 1
                train(other, other_opt, 1)


on_the_cpu(TestRoundTrip, globals())
on_the_cpu(TestOtherDicts, globals())
on_the_cpu(TestCast, globals())
