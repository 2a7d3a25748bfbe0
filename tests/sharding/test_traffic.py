"""The bytes that the cost table counts are the bytes that are sent."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import colangevin as cl
from colangevin.sharding import traffic
from colangevin.sharding.layout import Layout
from tests.sharding.cases import spread
from tests.sharding.simulated import simulate


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("momentum", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_owned_weights_send_what_is_counted(
    ranks: int, momentum: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    send = dist.all_to_all_single

    def counted(output: Any, given: Any, to: list[int], of: list[int], *, group: Any, async_op: bool) -> Any:
        sent.append(sum(of) - of[dist.get_rank(group)])
        return send(output, given, to, of, group=group, async_op=async_op)

    weight = cl.Orthogonal().init_(torch.randn(7, 5, dtype=dtype))

    def step(rank: int) -> None:
        parameter = nn.Parameter(spread(weight, "rows", ranks))
        group = {"params": [("w", parameter)], "constraint": cl.Orthogonal()}
        optimizer = cl.CoLud([group], 0.1, friction=1.0) if momentum else cl.CoLod([group], 0.1)
        parameter.grad = spread(weight, "rows", ranks)
        optimizer.step()

    monkeypatch.setattr(dist, "all_to_all_single", counted)
    simulate(step, ranks)
    layout, manifold = Layout((7, 5), (ranks,), ((0, 1),)), cl.Orthogonal().on((7, 5))
    assert sum(sent) == ranks * traffic.owned(manifold, layout, dtype, momentum=momentum)
