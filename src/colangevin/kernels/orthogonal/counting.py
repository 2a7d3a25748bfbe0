"""How many iterations were needed, for those who watch."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.residuals import ENOUGH

__all__ = ["count"]


@triton.jit
def count(
    sizes,  # float32 (ROWS, row): of the residual before each iteration, and of the last
    total,  # int64: the numbers of solves.Solves
    row,
    matrices,
    ROWS: tl.constexpr,
    MATRICES: tl.constexpr,  # a power of 2 that is at least as much
    CALLS: tl.constexpr,  # place of each number in the total
    WEIGHTS: tl.constexpr,
    ITERATIONS: tl.constexpr,
    FALLBACKS: tl.constexpr,
):
    """Add a call, its matrices, the iterations of the slowest, and how many of them failed."""
    number = tl.arange(0, MATRICES)
    known = number < matrices
    iterations = tl.zeros((MATRICES,), tl.int32)
    for k in range(ROWS - 1):
        size = tl.load(sizes + k * row + number, mask=known, other=0.0)
        iterations += ((size > ENOUGH) & (size < float("inf"))).to(tl.int32)
    size = tl.load(sizes + (ROWS - 1) * row + number, mask=known, other=0.0)
    failed = known & ~(size <= ENOUGH)
    # others may be adding too, on another stream
    tl.atomic_add(total + CALLS, 1)
    tl.atomic_add(total + WEIGHTS, matrices)
    tl.atomic_add(total + ITERATIONS, tl.max(iterations, 0))
    tl.atomic_add(total + FALLBACKS, tl.sum(failed.to(tl.int32), 0))
