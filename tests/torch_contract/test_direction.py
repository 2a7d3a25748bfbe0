"""A step goes down the loss, or up when asked to, whatever the options, layouts and kinds of parameters."""

import math
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Optimizer, lr_scheduler
from torch.testing._internal.common_utils import parametrize

from tests.optim_db import Problem, assert_identical, check_feasible, snapshot, train
from tests.torch_contract.infos import ConstrainedInfo, TestCase, each_info, on_the_cpu

STEPS = 4


def with_gaps(problem: Problem) -> None:
    """Let the parameters be every other number of larger tensors."""
    for parameter in problem.parameters():
        twice = torch.stack((parameter.detach(), torch.full_like(parameter, torch.nan)), dim=-1)
        parameter.data = twice[..., 0]
        assert not parameter.is_contiguous()


class TestDirection(TestCase):
    @parametrize("way", ["plain", "gaps", "closure"])
    @each_info
    def test_goes_right_direction(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, way: str
    ) -> None:
        for options in optim_info.option_sets():
            problem = optim_info.problem(device, dtype)
            if way == "gaps":
                with_gaps(problem)
            opt = optim_info.build(problem.groups(), **options)
            before = problem().item()
            for _ in range(STEPS):
                if way == "closure":
                    assert opt.step(partial(evaluate, problem)).requires_grad
                else:
                    evaluate(problem)
                    opt.step()
            check_feasible(opt)
            check_direction(problem, opt, before)

    @each_info
    def test_goes_right_direction_with_schedulers(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for constructors in optim_info.scheduler_inputs:
            for lr in (optim_info.options["lr"], torch.tensor(optim_info.options["lr"])):
                problem, opt = optim_info.start(device, dtype, lr=lr)
                schedulers = [construct(opt) for construct in constructors]
                before = problem().item()
                for _ in range(STEPS):
                    loss = evaluate(problem).item()
                    opt.step()
                    for scheduler in schedulers:
                        plateau = isinstance(scheduler, lr_scheduler.ReduceLROnPlateau)
                        scheduler.step(*([loss] if plateau else []))
                check_feasible(opt)
                check_direction(problem, opt, before)

    @each_info
    def test_groups_with_rates_of_their_own(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            opt.param_groups[1]["lr"] = 1e-28
            bias = problem.bias.detach().clone()
            before = problem().item()
            train(problem, opt, STEPS)
            check_direction(problem, opt, before)
            torch.testing.assert_close(problem.bias.detach(), bias)

    @each_info
    def test_groups_with_decays_of_their_own(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for (problem, opt), (plain, plain_opt) in zip(
            optim_info.starts(device, dtype, weight_decay=0.1),
            optim_info.starts(device, dtype, weight_decay=0.0),
            strict=True,
        ):
            opt.param_groups[1]["weight_decay"] = 0.0
            before = problem().item()
            train(problem, opt, 3)
            check_direction(problem, opt, before)
            train(plain, plain_opt, 3)
            assert_identical(problem.bias.detach(), plain.bias.detach())

    @each_info
    def test_tensor_lr(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        for options in optim_info.option_sets():
            rate = float(options["lr"])
            problem, opt = optim_info.start(device, dtype, **{**options, "lr": rate})
            rate = torch.tensor(rate, dtype=torch.float64)
            other, other_opt = optim_info.start(device, dtype, **{**options, "lr": rate})
            train(problem, opt, 3)
            train(other, other_opt, 3)
            assert_identical(dict(problem.state_dict()), dict(other.state_dict()))

    @each_info
    def test_complex_parameters(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        weight = optim_info.constraint.weight(dtype).to(device)
        parameter = nn.Parameter(torch.complex(weight, torch.zeros_like(weight)))
        group = {"params": [("weight", parameter)], "constraint": optim_info.constraint.constraint}
        opt = optim_info.build([group])
        before = parameter.abs().square().sum().item()
        parameter.abs().square().sum().backward()
        opt.step()
        assert parameter.abs().square().sum().item() < before

    @each_info
    def test_sparse_gradients(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        problem, opt = optim_info.start(device, dtype)
        dense, dense_opt = optim_info.start(device, dtype)
        problem.backward()
        problem.weight.grad = problem.weight.grad.to_sparse()
        dense.backward()
        opt.step()
        dense_opt.step()
        assert_identical(problem.weight.detach(), dense.weight.detach())

    @parametrize("flag", ["foreach", "fused"])
    @each_info
    def test_ignored_flags(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, flag: str
    ) -> None:
        """They change nothing, and leave no trace in a state dict, so that older ones still load."""
        for options in optim_info.option_sets():
            plain, plain_opt = optim_info.start(device, dtype, **options)
            train(plain, plain_opt, 1)
            for value in (None, False, True):
                problem, opt = optim_info.start(device, dtype, **{**options, flag: value})
                train(problem, opt, 1)
                assert_identical(snapshot(opt), snapshot(plain_opt))

    @parametrize("flag", ["capturable", "differentiable"])
    @each_info
    def test_implementation_flags(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, flag: str
    ) -> None:
        problem, opt = optim_info.start(device, dtype, **{flag: True})
        train(problem, opt, 1)

    @each_info
    def test_default_options(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        problem = optim_info.problem(device, dtype)
        opt = optim_info.optim_cls(problem.groups())
        train(problem, opt, 1)


class TestNoStep(TestCase):
    @each_info
    def test_nothing_has_a_gradient(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            problem.requires_grad_(False)
            before = snapshot(opt)
            assert opt.step(lambda: 1.5) == 1.5
            assert_identical(snapshot(opt), before)

    @each_info
    def test_every_gradient_is_zero(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for options in optim_info.option_sets(noisy=False):
            problem, opt = optim_info.start(device, dtype, **{**options, "weight_decay": 0.0})
            before = {name: parameter.detach().clone() for name, parameter in problem.named_parameters()}
            for parameter in problem.parameters():
                parameter.grad = torch.zeros_like(parameter)
            for _ in range(2):
                opt.step()
            torch.testing.assert_close(dict(problem.named_parameters()), before)

    @each_info
    def test_an_empty_parameter_beside_others(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            empty = nn.Parameter(torch.empty(0, device=device, dtype=dtype))
            opt.add_param_group({"params": [("empty", empty)]})
            for gradient in (None, torch.empty_like(empty)):
                empty.grad = gradient
                weight = problem.weight.detach().clone()
                train(problem, opt, 1)
                assert not torch.equal(problem.weight, weight)
            assert empty.shape == (0,)

    @each_info
    def test_state_is_made_for_what_moved_alone(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            assert not opt.state
            problem.bias.requires_grad_(False)
            train(problem, opt, 1)
            assert list(opt.state) == [problem.weight]
            assert all(opt.state.values())

    @each_info
    def test_gradients_that_are_differentiable(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """Gradients made for second derivatives carry a graph; a step neither fails over it nor keeps it."""
        for (problem, opt), (plain, plain_opt) in zip(
            optim_info.starts(device, dtype), optim_info.starts(device, dtype), strict=True
        ):
            for _ in range(2):
                parameters = list(problem.parameters())
                gradients = torch.autograd.grad(problem(), parameters, create_graph=True)
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.grad = gradient
                assert parameters[0].grad.requires_grad
                opt.step()
            train(plain, plain_opt, 2)
            assert_identical(snapshot(opt), snapshot(plain_opt))
            tensors = [value for state in opt.state.values() for value in state.values()]
            assert not any(tensor.requires_grad for tensor in tensors)
            assert all(parameter.is_leaf for parameter in problem.parameters())


def evaluate(problem: Problem) -> Tensor:
    problem.zero_grad()
    loss = problem()
    loss.backward()
    return loss


def check_direction(problem: Problem, opt: Optimizer, before: float) -> None:
    after = problem().item()
    assert math.isfinite(after)
    assert after > before if opt.param_groups[0]["maximize"] else after < before


on_the_cpu(TestDirection, globals())
on_the_cpu(TestNoStep, globals())
