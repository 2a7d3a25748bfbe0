"""The same run on the fused path and on that of plain torch."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.step import plan

Make = Callable[[list[dict[str, Any]]], torch.optim.Optimizer]
Lie = Callable[[Tensor], Tensor]

OPTIMIZERS: dict[str, Make] = {
    "Adam": lambda groups: cl.ConstrainedAdam(groups, 1e-2, weight_decay=0.1),
    "SGD": lambda groups: cl.ConstrainedSGD(groups, 0.05, momentum=0.9, weight_decay=0.1),
    "CoLod": lambda groups: cl.CoLod(groups, 0.02, temperature=0.01, seed=3),
    "OBA": lambda groups: cl.CoLud(groups, 0.1, friction=1.0, temperature=0.01, seed=3),
    "BAOAB": lambda groups: cl.CoLud(groups, 0.1, friction=1.0, temperature=0.01, splitting="BAOAB", seed=3),
}
#: a quotient of small numbers says little about their rounding
LOOSE = 3e-5
#: how tensors may lie in memory
LIES: dict[str, tuple[tuple[int, ...], Lie]] = {
    "contiguous": ((12, 7), torch.clone),
    "channels last": ((4, 6, 3, 5), lambda tensor: tensor.to(memory_format=torch.channels_last)),
    "channels last, one pixel": ((8, 6, 1, 1), lambda tensor: tensor.to(memory_format=torch.channels_last)),
    "channels last 3d": ((4, 2, 2, 3, 2), lambda tensor: tensor.to(memory_format=torch.channels_last_3d)),
    "transposed": ((12, 6), lambda tensor: tensor.mT.contiguous().mT),
    "permuted": ((4, 10, 3), lambda tensor: tensor.permute(1, 2, 0).contiguous().permute(2, 0, 1)),
}


def start(constraint: cl.Constraint, shape: Sequence[int]) -> Tensor:
    """A weight where the constraint holds it."""
    weight = 0.1 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    if isinstance(constraint, cl.NonNegative):
        return weight.abs_()  # the nearest ones would be 0, where only noise moves them
    if isinstance(constraint, cl.Simplex):
        return weight.flatten(1).softmax(1).view_as(weight)
    keeps = isinstance(constraint, cl.Sphere) and constraint.radius is None
    return weight if keeps else constraint.init_(weight, init="nearest")


def run(
    constraint: cl.Constraint,
    make: Make,
    shape: Sequence[int],
    device: torch.device,
    *,
    lies: Lie = torch.clone,
    dtype: torch.dtype = torch.float32,
    steps: int = 3,
    size: float = 1.0,
    edit: Callable[[Tensor], object] | None = None,
) -> tuple[dict[str, Tensor], list[str]]:
    """The weight and its state after some steps, and the names of the movers that took them."""
    weight = nn.Parameter(lies(start(constraint, shape).to(dtype).to(device)))
    optimizer = make([{"params": [("w", weight)], "constraint": constraint}])
    draw = torch.Generator().manual_seed(1)
    for step in range(steps):
        weight.grad = lies(size * torch.randn(shape, generator=draw).to(dtype).to(device))
        if edit is not None and step == steps - 1:
            edit(weight.detach())
        optimizer.step()
    movers = [type(mover).__name__ for mover in optimizer._plan.movers]
    return {"weight": weight.detach(), **optimizer.state[weight]}, movers


def assert_close(
    monkeypatch: pytest.MonkeyPatch,
    mover: str,
    constraint: cl.Constraint,
    make: Make,
    shape: Sequence[int],
    device: torch.device,
    *,
    tolerance: float = 5e-6,
    **options: Any,
) -> None:
    """The fused path was taken, by this mover, and leads where the plain one does."""
    ours, movers = run(constraint, make, shape, device, **options)
    assert movers == [mover]
    with monkeypatch.context() as patch:
        patch.setattr(plan, "family", lambda entry, dynamics: None)
        patch.setattr(plan, "native", lambda entry, dynamics: False)
        oracle, movers = run(constraint, make, shape, device, **options)
    assert movers == ["Plain"]
    assert ours.keys() == oracle.keys()
    for key, value in oracle.items():
        scale = max(1.0, float(value.abs().max()))
        torch.testing.assert_close(ours[key], value, rtol=0, atol=tolerance * scale, check_stride=False)


def take_steps(optimizer: torch.optim.Optimizer, count: int, device: torch.device) -> None:
    """Steps; on a CUDA device each is waited for."""
    for _ in range(count):
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
