"""Averages of gradients and of their squares, without the bias of their start, and their quotient."""

import triton
import triton.language as tl

from colangevin.kernels.columns import AdamRow, column, width

__all__ = ["correct", "corrections_of", "numbers_of", "quotient", "squares"]

_LR = column(AdamRow, "lr")
_DECAY = column(AdamRow, "decay")
_FIRST = column(AdamRow, "first")
_SECOND = column(AdamRow, "second")
_EPS = column(AdamRow, "eps")
_WIDTH = width(AdamRow)


@triton.jit
def correct(steps, logs, corrections, n, BLOCK: tl.constexpr):
    """Add 1 to n step counts t and write 1 / (1 - beta_1^t) and 1 / sqrt(1 - beta_2^t) for each.

    ``steps`` has the addresses of the counts, ``logs`` two float64 logarithms of the betas for each.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    count_at = tl.load(steps + i, mask=inside, other=0).to(tl.pointer_type(tl.int64))
    count = tl.load(count_at, mask=inside, other=0) + 1
    tl.store(count_at, count, mask=inside)
    # in float64: 1 - 0.999 would keep four digits in float32
    t = count.to(tl.float64)
    first = 1.0 - tl.exp(t * tl.load(logs + 2 * i, mask=inside, other=-1.0))
    second = 1.0 - tl.exp(t * tl.load(logs + 2 * i + 1, mask=inside, other=-1.0))
    tl.store(corrections + 2 * i, (1.0 / first).to(tl.float32), mask=inside)
    tl.store(corrections + 2 * i + 1, (1.0 / tl.sqrt(second)).to(tl.float32), mask=inside)


@triton.jit
def corrections_of(corrections, parameter):
    """What the averages of a parameter and the roots of its average squares are multiplied by."""
    return tl.load(corrections + 2 * parameter), tl.load(corrections + 2 * parameter + 1)


@triton.jit
def numbers_of(rates, weight, VARIES: tl.constexpr):
    """Learning rate, weight decay, weights of a gradient and of its square in their averages, and eps."""
    row = rates + weight * _WIDTH * VARIES
    first, second = tl.load(row + _FIRST), tl.load(row + _SECOND)
    return tl.load(row + _LR), tl.load(row + _DECAY), first, second, tl.load(row + _EPS)


@triton.jit
def squares(v, g, second):
    """The average of squares with those of g."""
    return (1.0 - second) * v + second * g * g


@triton.jit
def quotient(m, v, root_scale, eps):
    """M / (sqrt(v) + eps), with the root multiplied by its correction; 0 where both are 0."""
    root = tl.sqrt(v) * root_scale + eps
    some = root > 0
    return tl.where(some, m / tl.where(some, root, 1.0), 0.0)
