"""Arithmetic on stacks of weights, whose dimension 0 counts copies."""

import torch
from torch import Tensor

__all__ = ["largest_per_copy", "per_copy", "plus", "ratio"]


def per_copy(x: Tensor) -> Tensor:
    """The sum of each copy's entries."""
    return x.reshape(x.shape[0], -1).sum(1)


def largest_per_copy(x: Tensor) -> Tensor:
    """The largest entry of each copy; NaN if there is one."""
    return x.reshape(x.shape[0], -1).amax(1)


def plus(x: Tensor, y: Tensor, scale: float) -> Tensor:
    """The sum x + scale y in one pass."""
    return torch.add(x, y, alpha=scale)


def ratio(value: Tensor, size: Tensor) -> Tensor:
    """The quotient value / size, and 0 where both are 0."""
    return torch.where(size > 0, value / size.masked_fill(size <= 0, 1), value)
