"""Parameters of several dtypes in one optimizer, and defaults of torch that are not float32."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.testing._internal.common_utils import parametrize

from tests.optim_db import DTYPES, assert_identical, check_feasible, kept_in, snapshot, train
from tests.torch_contract.infos import ConstrainedInfo, TestCase, each_info, on_the_cpu


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class TestDtypes(TestCase):
    @each_info
    def test_mixed_in_one_group(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        """Each moves as it does alone, in the order of the group and in any other."""
        alone = {}
        for each in DTYPES:
            problem, opt = optim_info.start(device, each)
            train(problem, opt, 2)
            alone[each] = problem.weight.detach()
        for order in (DTYPES, DTYPES[::-1]):
            problems = [optim_info.problem(device, each) for each in order]
            weights = [(str(problem.weight.dtype), problem.weight) for problem in problems]
            opt = optim_info.build([{"params": weights, "constraint": optim_info.constraint.constraint}])
            for _ in range(2):
                for problem in problems:
                    problem.backward()
                opt.step()
            for problem in problems:
                weight = problem.weight.detach()
                assert_identical(weight, alone[weight.dtype])
                floats = [v.dtype for k, v in opt.state[problem.weight].items() if k != "step"]
                held = optim_info.constraint.constraint
                assert set(floats) <= {kept_in(optim_info.optim_cls, held, weight.dtype)}

    @parametrize("frozen", [torch.int64, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn])
    @each_info
    def test_frozen_beside_others(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, frozen: torch.dtype
    ) -> None:
        """Parameters that need no gradient are passed over, whatever they hold; torch does the same."""
        for options in optim_info.option_sets():
            problem = optim_info.problem(device, dtype)
            still = nn.Parameter(torch.ones(2, 3, device=device).to(frozen), requires_grad=False)
            weight, bias = problem.groups()
            bias["params"] = [*bias["params"], ("still", still)]
            opt = optim_info.build([weight, bias], **options)
            before = still.clone()
            for _ in range(2):
                problem.backward()
                opt.step()
            assert torch.equal(still.view(torch.uint8), before.view(torch.uint8))
            assert still not in opt.state
            opt.load_state_dict(opt.state_dict())

    @parametrize("default", [torch.float64, torch.bfloat16])
    @each_info
    def test_another_default_dtype(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo, default: torch.dtype
    ) -> None:
        """Results, state and state dicts do not depend on torch's default dtype."""
        for (problem, opt), (other, other_opt) in zip(
            *(optim_info.starts(device, dtype) for _ in range(2)), strict=True
        ):
            train(problem, opt, 2)
            with default_dtype(default):
                plain_train(other, other_opt, 2)
                saved = other_opt.state_dict()
                other_opt.load_state_dict(saved)
            assert_identical(snapshot(other_opt), snapshot(opt))

    @each_info
    def test_built_under_another_default_dtype(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for options in optim_info.option_sets():
            with default_dtype(torch.float64):
                problem, opt = optim_info.start(device, dtype, **options)
            other, other_opt = optim_info.start(device, dtype, **options)
            train(problem, opt, 2)
            train(other, other_opt, 2)
            assert_identical(snapshot(opt), snapshot(other_opt))

    @each_info
    def test_gradients_of_another_layout(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """Autograd may hand over gradients whose strides are not the parameter's."""
        for (problem, opt), (other, other_opt) in zip(
            *(optim_info.starts(device, dtype) for _ in range(2)), strict=True
        ):
            for _ in range(2):
                problem.backward()
                other.backward()
                other.weight.grad = with_gaps(other.weight.grad)
                opt.step()
                other_opt.step()
            check_feasible(other_opt)
            torch.testing.assert_close(other.weight, problem.weight)


def with_gaps(tensor: Tensor) -> Tensor:
    """The same numbers, every other one of a larger tensor."""
    return torch.stack((tensor, torch.full_like(tensor, torch.nan)), dim=-1)[..., 0]


def plain_train(problem: nn.Module, opt: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        problem.backward()
        opt.step()


on_the_cpu(TestDtypes, globals())
