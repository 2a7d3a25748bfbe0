"""Parameter groups: given, shared, named, added after steps, exchanged."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

import colangevin as cl
from tests.optim_db import Problem, assert_identical, check_feasible, snapshot, train
from tests.torch_contract.infos import ConstrainedInfo, TestCase, each_info, on_the_cpu


class TestGiven(TestCase):
    @each_info
    def test_groups_serve_several_optimizers(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """The groups that were passed stay as they are, and the next optimizer's options count."""
        for options in optim_info.option_sets():
            problem = optim_info.problem(device, dtype)
            groups = problem.groups()
            shape = [dict(group) for group in groups]
            first = optim_info.build(groups, **{**options, "lr": 0.5})
            assert groups == shape
            second = optim_info.build(groups, **options)
            assert groups == shape
            assert [group["lr"] for group in first.param_groups] == [0.5, 0.5]
            assert [group["lr"] for group in second.param_groups] == [options["lr"], options["lr"]]
            assert {group["seed"] for group in second.param_groups} == {options.get("seed")}
            first.param_groups[0]["lr"] = 0.1
            second.param_groups[0]["params"].append(None)
            assert second.param_groups[0]["lr"] == options["lr"]
            assert len(first.param_groups[0]["params"]) == 1

    @each_info
    def test_an_added_group_stays_the_caller_s(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        _, opt = optim_info.start(device, dtype)
        given = {"params": [("late", nn.Parameter(torch.ones(2)))]}
        shape = dict(given)
        opt.add_param_group(given)
        assert given == shape

    @each_info
    def test_groups_equal_optimizers_of_their_own(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for options in optim_info.option_sets(noisy=False):
            together, opt = optim_info.start(device, dtype, **options)
            opt.param_groups[1]["lr"] = 0.01
            apart = optim_info.problem(device, dtype)
            weight, bias = apart.groups()
            opts = [
                optim_info.build([weight], **options),
                optim_info.build([bias], **{**options, "lr": 0.01}),
            ]
            train(together, opt, 3)
            for _ in range(3):
                apart.backward()
                for each in opts:
                    each.step()
            assert_identical(dict(apart.state_dict()), dict(together.state_dict()))

    @each_info
    def test_parameters_in_any_form(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """A tensor, a list, a tuple, a generator: torch takes them all, and refuses a set."""
        constraint = optim_info.constraint.constraint
        for form in (lambda p: p, lambda p: [p], lambda p: (p,), lambda p: (each for each in [p])):
            problem = optim_info.problem(device, dtype)
            groups = [{"params": form(problem.weight), "constraint": constraint}, {"params": [problem.bias]}]
            train(problem, optim_info.build(groups), 1)
        with pytest.raises(TypeError, match="ordered collections"):
            optim_info.build([{"params": {problem.weight}, "constraint": constraint}])

    @each_info
    def test_tensors_that_cannot_be_optimized(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        constraint = optim_info.constraint.constraint
        weight = nn.Parameter(optim_info.constraint.weight(dtype).to(device))
        for params, error, message in (
            ([1.0], TypeError, "optimizer can only optimize Tensors"),
            ([weight * 1], ValueError, "can't optimize a non-leaf Tensor"),
        ):
            with pytest.raises(error, match=message):
                optim_info.build([{"params": params, "constraint": constraint}])
        with pytest.raises(ValueError, match="empty parameter list"):
            optim_info.build([])


class TestNamed(TestCase):
    @each_info
    def test_names_are_kept(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        problem, opt = optim_info.start(device, dtype)
        train(problem, opt, 1)
        opt.add_param_group({"params": [("late", nn.Parameter(torch.ones(2)))]})
        expected = [["weight"], ["bias"], ["late"]]
        assert [group["param_names"] for group in opt.param_groups] == expected
        assert [group["param_names"] for group in opt.state_dict()["param_groups"]] == expected
        assert list(cl.diagnostics.violation(opt)) == ["weight", "bias", "late"]

    @each_info
    def test_from_named_parameters(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """A generator of pairs, as ``model.named_parameters()`` is; without groups all is free."""
        problem = optim_info.problem(device, dtype)
        opt = optim_info.build(problem.named_parameters())
        assert opt.param_groups[0]["param_names"] == ["weight", "bias"]
        assert opt.param_groups[0]["constraint"] == cl.Free()
        problem.backward()
        opt.step()
        problem.weight.grad.fill_(torch.nan)
        with pytest.raises(cl.NonFiniteError, match="'weight'"):
            opt.step()

    @each_info
    def test_named_and_unnamed_do_not_mix(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        problem, opt = optim_info.start(device, dtype)
        before = snapshot(opt)
        with pytest.raises(ValueError, match="cannot add param group without names"):
            opt.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
        assert_identical(snapshot(opt), before)
        train(problem, opt, 1)


class TestAdded(TestCase):
    @each_info
    def test_after_steps_it_takes_the_defaults(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            late = optim_info.problem(device, dtype, seed=5)
            constraint = optim_info.constraint.constraint
            opt.param_groups[0]["lr"] = 0.001
            opt.add_param_group({"params": [("late", late.weight)], "constraint": constraint})
            assert {k: opt.param_groups[2][k] for k in optim_info.options} == {
                k: opt.defaults[k] for k in optim_info.options
            }
            before = late.weight.detach().clone()
            late.backward()
            train(problem, opt, 2)
            assert not torch.equal(late.weight, before)
            assert int(opt.state[late.weight]["step"]) == 2
            assert int(opt.state[problem.weight]["step"]) == 3

    @each_info
    def test_the_whole_is_saved_and_loaded(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            late = nn.Parameter(torch.ones(2, device=device, dtype=dtype))
            late.grad = torch.full_like(late, 0.1)
            opt.add_param_group({"params": [("late", late)], "lr": 0.01})
            train(problem, opt, 1)
            other, other_opt, other_late = copy.deepcopy((problem, opt, late))
            other_late.grad = late.grad.clone()  # torch copies parameters without it
            train(other, other_opt, 1)
            train(problem, opt, 1)
            other_opt.load_state_dict(opt.state_dict())
            assert_identical(snapshot(other_opt), snapshot(opt))
            assert_identical(other_late.detach(), late.detach())

    @each_info
    def test_a_parameter_that_is_there_already(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        problem, opt = optim_info.start(device, dtype)
        train(problem, opt, 1)
        before = snapshot(opt)
        with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
            opt.add_param_group({"params": [("again", problem.bias)]})
        assert_identical(snapshot(opt), before)
        train(problem, opt, 1)


class TestExchanged(TestCase):
    @each_info
    def test_another_parameter_in_the_place_of_one(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """Torch looks at ``group["params"]`` in every step; the one taken out rests, the new one moves."""
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            old, old_state = problem.weight, opt.state[problem.weight]
            before = old.detach().clone()
            other = optim_info.problem(device, dtype, seed=5)
            problem.weight = other.weight
            opt.param_groups[0]["params"][0] = other.weight
            start = other.weight.detach().clone()
            train(problem, opt, 1)
            assert_identical(old.detach(), before)
            assert int(old_state["step"]) == 1
            assert not torch.equal(other.weight, start)
            assert int(opt.state[other.weight]["step"]) == 1
            check_feasible(opt)

    @each_info
    def test_all_parameters_and_the_whole_state(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """As torch's stateless step does: with another model's parameters and state."""
        for (problem, opt), (other, other_opt), (alone, alone_opt) in zip(
            *(optim_info.starts(device, dtype) for _ in range(3)), strict=True
        ):
            train(problem, opt, 1)
            train(other, other_opt, 2)
            train(alone, alone_opt, 3)
            before = snapshot(opt)
            kept = exchange(opt, other, other_opt.state)
            train(other, opt, 1)
            exchange(opt, problem, kept)
            assert_identical(dict(other.state_dict()), dict(alone.state_dict()))
            assert_identical(snapshot(opt), before)

    @each_info
    def test_a_parameter_taken_out(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            train(problem, opt, 1)
            del opt.param_groups[1]
            bias, weight = problem.bias.detach().clone(), problem.weight.detach().clone()
            train(problem, opt, 1)
            assert_identical(problem.bias.detach(), bias)
            assert not torch.equal(problem.weight, weight)


def exchange(opt: Optimizer, problem: Problem, state: Any) -> Any:
    """Let an optimizer hold other parameters and another state."""
    kept = opt.state
    for group, parameter in zip(opt.param_groups, (problem.weight, problem.bias), strict=True):
        group["params"] = [parameter]
    opt.state = state
    return kept


on_the_cpu(TestGiven, globals())
on_the_cpu(TestNamed, globals())
on_the_cpu(TestAdded, globals())
on_the_cpu(TestExchanged, globals())
