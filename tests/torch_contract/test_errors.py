"""What must raise raises, with torch's words where torch speaks first."""

import pytest
import torch
from torch.testing._internal.common_optimizers import OptimizerErrorEnum

from tests.torch_contract.infos import ConstrainedInfo, TestCase, each_info, on_the_cpu


class TestErrors(TestCase):
    @each_info
    def test_error_inputs(self, device: str, dtype: torch.dtype, optim_info: ConstrainedInfo) -> None:
        for each in optim_info.optim_error_inputs_func(device=device, dtype=dtype):
            given = each.optimizer_error_input
            warns = issubclass(each.error_type, Warning)
            expected = (pytest.warns if warns else pytest.raises)(each.error_type, match=each.error_regex)
            with self.subTest(given.desc):
                if each.error_on == OptimizerErrorEnum.CONSTRUCTION_ERROR:
                    with expected:
                        optim_info.optim_cls(given.params, **given.kwargs)
                else:
                    opt = optim_info.optim_cls(given.params, **given.kwargs)
                    with expected:
                        opt.step()


on_the_cpu(TestErrors, globals())
