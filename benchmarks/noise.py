"""What noise is measured by: torch's own generator drawing as many numbers, and no step."""

import torch
from torch import Tensor

from benchmarks.contender import Contender, Run

__all__ = ["RANDN"]


def _randn(weights: list[Tensor], size: float) -> Run:
    def draw() -> None:
        for weight in weights:
            torch.randn(weight.shape, device=weight.device)

    return Run(weights, refill=lambda: None, step=draw, state=lambda: iter(()), error=None)


RANDN = Contender("randn alone, no step", "torch", _randn, None)
