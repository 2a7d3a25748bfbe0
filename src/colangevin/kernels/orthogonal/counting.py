"""Statistics of the quasi-Newton iteration, for optimizers that are watched."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.residuals import ENOUGH

__all__ = ["count"]


@triton.jit
def count(
    sizes,  # float32 (ROWS, row): of the residual before each iteration, and after the last
    total,  # int64: the numbers of solves.Solves
    row,  # length of a row of sizes, padding included
    matrices,  # their number
    ROWS: tl.constexpr,
    MATRICES: tl.constexpr,  # a power of 2, not less than their number
    CALLS: tl.constexpr,  # place of each number in the total
    WEIGHTS: tl.constexpr,
    ITERATIONS: tl.constexpr,
    FALLBACKS: tl.constexpr,
):
    """Add one call, its matrices, the iterations of the slowest matrix, and how many matrices failed."""
    number = tl.arange(0, MATRICES)
    known = number < matrices
    iterations = tl.zeros((MATRICES,), tl.int32)
    for k in range(ROWS - 1):
        size = tl.load(sizes + k * row + number, mask=known, other=0.0)
        iterations += ((size > ENOUGH) & (size < float("inf"))).to(tl.int32)
    size = tl.load(sizes + (ROWS - 1) * row + number, mask=known, other=0.0)
    failed = known & ~(size <= ENOUGH)
    # atomic, because a launch on another stream may add to the same total
    tl.atomic_add(total + CALLS, 1)
    tl.atomic_add(total + WEIGHTS, matrices)
    tl.atomic_add(total + ITERATIONS, tl.max(iterations, 0))
    tl.atomic_add(total + FALLBACKS, tl.sum(failed.to(tl.int32), 0))
