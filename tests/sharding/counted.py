"""Bytes that go through collectives in a step."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Placement, distribute_tensor

from tests.sharding.simulated import simulate
from tests.sharding.split_runs import Run


class Counted:
    """Bytes that each rank puts into collectives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.summed: dict[int, int] = {}
        self.sent: dict[int, int] = {}
        reduce, exchange = dist.all_reduce, dist.all_to_all_single

        def all_reduce(tensor: Tensor, *arguments: Any, **options: Any) -> Any:
            if tensor.dtype != torch.int64:  # what all ranks agree on, once for all parameters
                self._add(self.summed, tensor.numel() * tensor.element_size())
            return reduce(tensor, *arguments, **options)

        def all_to_all_single(
            received: Any, buffer: Any, sizes: Any, sent: Any, group: Any, async_op: bool
        ) -> Any:
            self._add(self.sent, sum(sent) - sent[dist.get_rank(group)])
            return exchange(received, buffer, sizes, sent, group=group, async_op=async_op)

        monkeypatch.setattr(dist, "all_reduce", all_reduce)
        monkeypatch.setattr(dist, "all_to_all_single", all_to_all_single)

    @staticmethod
    def _add(totals: dict[int, int], count: int) -> None:
        totals[dist.get_rank()] = totals.get(dist.get_rank(), 0) + count

    def of_a_step(self, run: Run, placements: Sequence[Placement], mesh: tuple[int, ...]) -> set[str]:
        """Count the third step along small gradients, and say which way it went."""

        def steps(rank: int) -> set[str]:
            made = init_device_mesh("cpu", mesh)
            optimizer, parameters = run.begun(lambda tensor: distribute_tensor(tensor, made, placements))
            grads = [distribute_tensor(torch.full_like(each, 0.01), made, placements) for each in run.weights]
            for parameter, grad in zip(parameters, grads, strict=True):
                parameter.grad = grad
            for _ in range(3):
                self.summed[rank] = self.sent[rank] = 0
                optimizer.step()
            return {sharded.way for sharded in optimizer._roster.sharded.parameters}

        return set.union(*simulate(steps, math.prod(mesh)))
