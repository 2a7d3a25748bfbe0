"""Newton-Schulz for the polar factor, where quasi-Newton failed."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.meeting import meet
from colangevin.kernels.orthogonal.multiply import square_product
from colangevin.kernels.orthogonal.residuals import ENOUGH, largest_entry
from colangevin.kernels.orthogonal.tiles import at, identity_tile, locate, square

__all__ = ["polar"]

# an iteration reduces this residual to 2e-5, so that it is the last one
_NEAR = tl.constexpr(5e-3)


@triton.jit
def polar(
    table,
    tiles,  # of s x s matrices, all of them
    error,  # E
    bound,  # float32 (matrices,): no eigenvalue of X_bar X_bar^T is larger
    size,  # float32 (matrices,): of the quasi-Newton iteration's last residual
    Y,  # s x s workspaces
    Z,  # the result
    Y_spare,
    Z_spare,
    T,
    sizes,  # float32 (ITERATIONS + 1, matrices): largest entry of I - ZY before each iteration, 0 at first
    arrivals,  # int32 (1,), 0 at first
    count,  # of tiles
    matrices,  # their number
    MATRICES: tl.constexpr,  # a power of 2, not less than their number
    ITERATIONS: tl.constexpr,  # an even number
    BLOCK: tl.constexpr,
):
    """Z = (X_bar X_bar^T / bound)^(-1/2) where quasi-Newton failed, by Newton-Schulz.

    Y begins as X_bar X_bar^T / bound, Z as I. An iteration is T = (3 I - Z Y)/2, Y <- Y T, Z <- T Z; all of
    these are symmetric. The programs share the tiles out among them and wait for each other, so that all have
    to run at the same time. When no matrix has failed, which is the common case, they end at once.
    """
    number = tl.arange(0, MATRICES)
    known = number < matrices
    failed = known & ~(tl.load(size + number, mask=known, other=0.0) <= ENOUGH)
    if tl.max(failed.to(tl.int32), 0) > 0:
        for tile in range(tl.program_id(0), count, tl.num_programs(0)):
            matrix, row, s, i, j = locate(table, tiles, tile, BLOCK, BLOCK)
            if not (tl.load(size + matrix) <= ENOUGH):
                identity = identity_tile(i, j, s)
                whole = tl.load(at(square(error, row), i, j)) + identity
                tl.store(at(square(Y, row), i, j), whole / tl.load(bound + matrix))
                tl.store(at(square(Z, row), i, j), identity)
                tl.atomic_max(sizes + matrix, 1.0)
        meet(arrivals, 1)
        for k in range(ITERATIONS):
            before, after = sizes + k * matrices, sizes + (k + 1) * matrices
            for tile in range(tl.program_id(0), count, tl.num_programs(0)):
                matrix, row, s, i, j = locate(table, tiles, tile, BLOCK, BLOCK)
                largest = tl.load(before + matrix)
                if largest > _NEAR:
                    identity = identity_tile(i, j, s)
                    ZY = square_product(square(Z, row), square(Y, row), i, j, "tf32x3", BLOCK)
                    tl.store(at(square(T, row), i, j), 1.5 * identity - 0.5 * ZY)
                    largest = largest_entry(identity - ZY)
                tl.atomic_max(after + matrix, largest)
            meet(arrivals, 2 * k + 2)
            for tile in range(tl.program_id(0), count, tl.num_programs(0)):
                matrix, row, s, i, j = locate(table, tiles, tile, BLOCK, BLOCK)
                largest = tl.load(before + matrix)
                Y_at, Z_at, T_at = square(Y, row), square(Z, row), square(T, row)
                here, there = at(square(Y_spare, row), i, j), at(square(Z_spare, row), i, j)
                if largest > _NEAR:
                    tl.store(here, square_product(Y_at, T_at, i, j, "tf32x3", BLOCK))
                    tl.store(there, square_product(T_at, Z_at, i, j, "tf32x3", BLOCK))
                elif largest > 0:
                    tl.store(here, tl.load(at(Y_at, i, j)))
                    tl.store(there, tl.load(at(Z_at, i, j)))
            meet(arrivals, 2 * k + 3)
            Y, Y_spare, Z, Z_spare = Y_spare, Y, Z_spare, Z
