"""Sizes of residuals, and when one is small enough."""

import triton
import triton.language as tl

__all__ = ["ENOUGH", "largest_entry"]

# error at which an iteration may stop: the last correction makes 3e-13 of it
ENOUGH = tl.constexpr(1e-4)


@triton.jit
def largest_entry(value):
    """Largest absolute entry of a tile; infinity when one is NaN."""
    size = tl.abs(value)
    size = tl.where(size == size, size, float("inf"))
    return tl.max(tl.max(size, 1), 0)
