"""What noise is measured by: torch's generator and ours drawing as many numbers, and no step."""

from collections.abc import Callable
from itertools import count

import torch
from torch import Tensor

from benchmarks.contender import Contender, Run
from colangevin.noise import normal, stream

__all__ = ["NORMALS", "RANDN"]


def _alone(weights: list[Tensor], draw: Callable[[], None]) -> Run:
    return Run(weights, refill=lambda: None, step=draw, state=lambda: iter(()), error=None)


def _randn(weights: list[Tensor], size: float) -> Run:
    def draw() -> None:
        for weight in weights:
            torch.randn(weight.shape, device=weight.device)

    return _alone(weights, draw)


def _normals(weights: list[Tensor], size: float) -> Run:
    steps = count()

    def draw() -> None:
        step = next(steps)
        for index, weight in enumerate(weights):
            normal([stream(0, step, index)], weight.shape, dtype=weight.dtype, device=weight.device)

    return _alone(weights, draw)


RANDN = Contender("randn alone, no step", "torch", _randn, None)
NORMALS = Contender("normals alone, no step", "colangevin", _normals, None)
