"""``torch.optim.swa_utils``: averages of the weights are kept beside a run and do not disturb it."""

import copy

import torch
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn

from tests.optim_db import assert_identical, snapshot, train
from tests.torch_contract.infos import ConstrainedInfo, TestCase, each_info, on_the_cpu


class TestAveraging(TestCase):
    @each_info
    def test_the_mean_of_the_weights(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        for (problem, opt), (plain, plain_opt) in zip(
            *(optim_info.starts(device, dtype) for _ in range(2)), strict=True
        ):
            average = AveragedModel(problem)
            weights = []
            for _ in range(3):
                train(problem, opt, 1)
                average.update_parameters(problem)
                weights.append(problem.weight.detach().clone())
            torch.testing.assert_close(average.module.weight.detach(), torch.stack(weights).mean(0))
            train(plain, plain_opt, 3)
            assert_identical(snapshot(opt), snapshot(plain_opt))

    @each_info
    def test_a_moving_average(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        for problem, opt in optim_info.starts(device, dtype):
            average = AveragedModel(problem, multi_avg_fn=get_ema_multi_avg_fn(0.9))
            train(problem, opt, 1)
            average.update_parameters(problem)
            first = problem.weight.detach().clone()
            train(problem, opt, 1)
            average.update_parameters(problem)
            expected = 0.9 * first + 0.1 * problem.weight.detach()
            torch.testing.assert_close(average.module.weight.detach(), expected)

    @each_info
    def test_the_average_and_its_schedule_resume(
        self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo
    ) -> None:
        problem, opt = optim_info.noisy_start(device, dtype)
        average, schedule = AveragedModel(problem), SWALR(opt, swa_lr=0.01, anneal_epochs=2)

        def go_on(problem, opt, average, schedule) -> None:
            train(problem, opt, 1)
            average.update_parameters(problem)
            schedule.step()

        go_on(problem, opt, average, schedule)
        parts = (problem, opt, average, schedule)
        saved = [copy.deepcopy(part.state_dict()) for part in parts]
        other, other_opt = optim_info.noisy_start(device, dtype)
        others = (other, other_opt, AveragedModel(other), SWALR(other_opt, swa_lr=0.01, anneal_epochs=2))
        for part, state in zip(others, saved, strict=True):
            part.load_state_dict(state)
        go_on(*parts)
        go_on(*others)
        assert_identical(snapshot(other_opt), snapshot(opt))
        assert_identical(dict(others[2].state_dict()), dict(average.state_dict()))


on_the_cpu(TestAveraging, globals())
