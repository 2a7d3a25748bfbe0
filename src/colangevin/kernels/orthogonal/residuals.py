"""The size of a residual, and when it is small enough."""

import triton
import triton.language as tl

__all__ = ["ENOUGH", "largest_entry"]

# largest entry of a residual at which an iteration stops; the last correction reduces the error to 3e-13
ENOUGH = tl.constexpr(1e-4)


@triton.jit
def largest_entry(value):
    """Largest absolute entry of a tile; infinity when one is NaN."""
    size = tl.abs(value)
    size = tl.where(size == size, size, float("inf"))
    return tl.max(tl.max(size, 1), 0)
