"""``torch.amp.GradScaler``: scaled losses, gradients unscaled by hand, several optimizers."""

import math

import pytest
import torch
from torch.amp import GradScaler

from tests.optim_db import assert_identical, check_feasible, snapshot, train
from tests.torch_contract.infos import ConstrainedInfo, TestCase, each_info, on_the_cpu


class TestGradScaler(TestCase):
    @each_info
    def test_a_power_of_two_changes_nothing(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        """Scaling by a power of two is exact, so that the run is the same to the last bit."""
        for (problem, opt), (plain, plain_opt) in zip(
            *(optim_info.starts(device, dtype) for _ in range(2)), strict=True
        ):
            scaler = GradScaler(device, init_scale=1024.0, growth_interval=1)
            for _ in range(3):
                opt.zero_grad()
                scaler.scale(problem()).backward()
                scaler.step(opt)
                scaler.update()
            assert scaler.get_scale() == 8 * 1024.0
            train(plain, plain_opt, 3)
            assert_identical(snapshot(opt), snapshot(plain_opt))

    @each_info
    def test_gradients_unscaled_and_clipped(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for (problem, opt), (plain, plain_opt) in zip(
            *(optim_info.starts(device, dtype) for _ in range(2)), strict=True
        ):
            scaler = GradScaler(device, init_scale=64.0)
            for _ in range(2):
                opt.zero_grad()
                scaler.scale(problem()).backward()
                scaler.unscale_(opt)
                torch.nn.utils.clip_grad_norm_(problem.parameters(), 0.5)
                scaler.step(opt)
                scaler.update()
                plain.backward()
                torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
                plain_opt.step()
            check_feasible(opt)
            assert_identical(snapshot(opt), snapshot(plain_opt))

    @each_info
    def test_an_overflow_stops_its_own_optimizer_alone(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for (problem, opt), (other, other_opt) in zip(
            *(optim_info.starts(device, dtype) for _ in range(2)), strict=True
        ):
            scaler = GradScaler(device, init_scale=64.0)
            scaler.scale(problem() + other()).backward()
            problem.weight.grad.view(-1)[0] = math.inf
            before = snapshot(opt)
            weight = other.weight.detach().clone()
            scaler.step(opt)
            scaler.step(other_opt)
            scaler.update()
            assert scaler.get_scale() == 32.0
            assert_identical(snapshot(opt), before)
            assert not torch.equal(other.weight, weight)
            train(problem, opt, 1)

    @each_info
    def test_a_scaler_that_is_off(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        """Then the optimizer sees what it sees without one: it refuses, and changes nothing."""
        for problem, opt in optim_info.starts(device, dtype):
            scaler = GradScaler(device, enabled=False)
            scaler.scale(problem()).backward()
            scaler.step(opt)
            problem.weight.grad.view(-1)[0] = math.nan
            before = snapshot(opt)
            with pytest.raises(ValueError, match="its gradient holds NaN or Inf"):
                scaler.step(opt)
            assert_identical(snapshot(opt), before)


on_the_cpu(TestGradScaler, globals())
