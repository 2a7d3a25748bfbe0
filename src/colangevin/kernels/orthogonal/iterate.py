"""The quasi-Newton iteration of one tile."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.multiply import product_and_mirror
from colangevin.kernels.orthogonal.parts import joined
from colangevin.kernels.orthogonal.residuals import ENOUGH, largest_entry
from colangevin.kernels.orthogonal.symmetric import store_split_mirrored
from colangevin.kernels.orthogonal.tiles import at, locate, square

__all__ = ["gets_on", "iterate", "store_iterate"]

# an iteration that does not reduce the residual to this part of it has failed, as in Orthogonal
_PROGRESS = tl.constexpr(0.9)


@triton.jit
def store_iterate(M_high, M_low, N_high, N_low, slope, row, i, j, M):
    """Write M and N = M/2 - B, in two parts each."""
    store_split_mirrored(square(M_high, row), square(M_low, row), i, j, M, M)
    B, Nh, Nl = square(slope, row), square(N_high, row), square(N_low, row)
    N, N_mirrored = 0.5 * M - tl.load(at(B, i, j)), 0.5 * M - tl.trans(tl.load(at(B, j, i)))
    store_split_mirrored(Nh, Nl, i, j, N, N_mirrored)


@triton.jit
def gets_on(earlier, before):
    """Whether a matrix goes on, given the sizes of its residual two iterations before and one before."""
    return (before > ENOUGH) & (before <= _PROGRESS * earlier) & (before < 1e3)


@triton.jit
def iterate(
    table,
    tiles,
    tile,
    error,
    slope,
    M_high,
    M_low,
    N_high,
    N_low,
    new_M_high,
    new_M_low,
    new_N_high,
    new_N_low,
    size_earlier,
    size_before,
    size,
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """M <- M + residual/2 in one tile; the residual is E + MN + (MN)^T. Arguments as in ``quasi_newton``."""
    matrix, row, s, i, j = locate(table, tiles, tile, BLOCK, BLOCK)
    earlier, before = tl.load(size_earlier + matrix), tl.load(size_before + matrix)
    Mh, Ml = square(M_high, row), square(M_low, row)
    move = gets_on(earlier, before)
    # a matrix that stopped two iterations ago has its M in both workspaces; one with s = 0 stays where it is
    if (s > 0) & ~(earlier <= ENOUGH):
        M = joined(Mh, Ml, i, j)
        if move:
            Nh, Nl = square(N_high, row), square(N_low, row)
            residual = product_and_mirror(Mh, Ml, Nh, Nl, i, j, BLOCK, DEPTH)
            residual += tl.load(at(square(error, row), i, j))
            M += 0.5 * residual
            tl.atomic_max(size + matrix, largest_entry(residual))
        store_iterate(new_M_high, new_M_low, new_N_high, new_N_low, slope, row, i, j, M)
    if not move:
        tl.atomic_max(size + matrix, tl.where(before <= ENOUGH, before, float("inf")))
