"""The quasi-Newton iteration for M, in Gram form."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.drift import drift_of
from colangevin.kernels.orthogonal.iterate import gets_on, iterate, store_iterate
from colangevin.kernels.orthogonal.meeting import meet
from colangevin.kernels.orthogonal.multiply import product_and_mirror
from colangevin.kernels.orthogonal.residuals import ENOUGH, largest_entry
from colangevin.kernels.orthogonal.symmetric import store_mirrored
from colangevin.kernels.orthogonal.tiles import at, identity_tile, locate_own, square

__all__ = ["gram", "quasi_newton", "quasi_newton_to_the_end"]


@triton.jit
def gram(
    table,
    tiles,  # of s x s matrices, on and above the diagonal
    outer,  # G
    symmetric,  # S
    slope,  # B
    S_high,
    S_low,
    D_high,  # S/2 - K
    D_low,
    rates,  # float32: one RateRow, or one for each matrix
    error,  # s x s workspace: E = X_bar X_bar^T - I
    M_high,  # s x s workspaces: the first iterate
    M_low,
    N_high,  # s x s workspaces: M/2 - B
    N_low,
    size,  # float32 (matrices,): the largest entry of E
    bound,  # float32 (matrices,): no eigenvalue of X_bar X_bar^T is larger
    OVERDAMPED: tl.constexpr,
    VARIES: tl.constexpr,
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """E = a^2 (G + SD + (SD)^T), or G + 2 S in the overdamped step, and the first iterate M = E/2."""
    matrix, row, s, i, j = locate_own(table, tiles, BLOCK, BLOCK)
    if s == 0:  # a matrix that stays where it is
        return
    E_at = square(error, row)
    E = tl.load(at(square(outer, row), i, j))
    if OVERDAMPED:
        E += 2.0 * tl.load(at(square(symmetric, row), i, j))
    else:
        Sh, Sl, Dh, Dl = square(S_high, row), square(S_low, row), square(D_high, row), square(D_low, row)
        a = drift_of(rates, matrix, VARIES)
        E = a * a * (E + product_and_mirror(Sh, Sl, Dh, Dl, i, j, BLOCK, DEPTH))
    tl.atomic_max(size + matrix, largest_entry(E))
    # An eigenvalue is at most the largest sum of the absolute entries of a row. A row crosses E_at[1] //
    # BLOCK tiles, and none of them adds more than the largest sum within a tile. The sums of columns are
    # those of the mirrored tile's rows.
    whole = tl.abs(identity_tile(i, j, s) + E)
    sums = tl.maximum(tl.max(tl.sum(whole, 1), 0), tl.max(tl.sum(whole, 0), 0))
    tl.atomic_max(bound + matrix, tl.where(sums == sums, sums, float("inf")) * (E_at[1] // BLOCK))
    store_mirrored(E_at, i, j, E, E)
    store_iterate(M_high, M_low, N_high, N_low, slope, row, i, j, 0.5 * E)


@triton.jit
def quasi_newton(
    table,
    tiles,  # on and above the diagonal
    error,  # E
    slope,  # B
    M_high,
    M_low,
    N_high,  # M/2 - B
    N_low,
    new_M_high,  # M + (E - MB - (MB)^T + M^2)/2
    new_M_low,
    new_N_high,
    new_N_low,
    size_earlier,  # float32 (matrices,): largest entry of the residual two iterations before
    size_before,  # of the one before
    size,  # of this one; infinite when the iteration has failed
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """One quasi-Newton iteration."""
    iterate(
        table,
        tiles,
        tl.program_id(0),
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
        BLOCK,
        DEPTH,
    )


@triton.jit
def quasi_newton_to_the_end(
    table,
    tiles,
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
    sizes,  # float32 (2 + ITERATIONS, matrices): of the residuals of two iterations before, then of each
    arrivals,  # int32 (1,), 0 at first
    count,  # of tiles
    matrices,  # their number
    MATRICES: tl.constexpr,  # a power of 2, not less than their number
    ITERATIONS: tl.constexpr,  # an even number
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """The iterations that are left, in programs that share the tiles out among them and wait for each other.

    When no matrix goes on, the programs end at once, and the first writes the last residuals.
    """
    number = tl.arange(0, MATRICES)
    known = number < matrices
    earlier = tl.load(sizes + number, mask=known, other=0.0)
    before = tl.load(sizes + matrices + number, mask=known, other=0.0)
    if tl.max((known & gets_on(earlier, before)).to(tl.int32), 0) > 0:
        for k in range(ITERATIONS):
            size = sizes + k * matrices
            for tile in range(tl.program_id(0), count, tl.num_programs(0)):
                iterate(
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
                    size,
                    size + matrices,
                    size + 2 * matrices,
                    BLOCK,
                    DEPTH,
                )
            meet(arrivals, k + 1)
            M_high, new_M_high = new_M_high, M_high
            M_low, new_M_low = new_M_low, M_low
            N_high, new_N_high = new_N_high, N_high
            N_low, new_N_low = new_N_low, N_low
    elif tl.program_id(0) == 0:
        last = tl.where(before <= ENOUGH, before, float("inf"))
        tl.store(sizes + (ITERATIONS + 1) * matrices + number, last, mask=known)
