"""What is s x s in a step of a large matrix, around products that cuBLAS makes.

The letters are those of :mod:`colangevin.kernels.orthogonal`. Where U comes from, one 16-bit part of each
factor is enough: a wrong U leads off the manifold but for what is of second order in the step, and the last
correction leads back. The diagonals of U and T, which hold their largest entries, are multiplied in
float32.
"""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.drift import drift_of
from colangevin.kernels.orthogonal.landing import X_UNIT
from colangevin.kernels.orthogonal.multiply import split_dot
from colangevin.kernels.orthogonal.symmetric import as_above, store_mirrored
from colangevin.kernels.orthogonal.tiles import at, band, identity_tile, locate_own, square

__all__ = [
    "C_UNIT",
    "E_UNIT",
    "U_UNIT",
    "large_examine",
    "large_gram",
    "large_halves",
    "large_iterate",
    "large_mean",
    "large_normal",
]

# what M, N and U, E, and C are multiplied by before they are stored as float16
U_UNIT = tl.constexpr(256.0)
E_UNIT = tl.constexpr(16384.0)
C_UNIT = tl.constexpr(65536.0)


@triton.jit
def _with_mirror(matrix, i, j):
    """Tile (i, j) of a matrix, and of its transpose."""
    return tl.load(at(matrix, i, j)), tl.trans(tl.load(at(matrix, j, i)))


@triton.jit
def _store_iterate(M_at, M_top, N_top, row, i, j, M, A):
    """Write M, its 16-bit part and that of N = M/2 - A, where A is skew."""
    part: tl.constexpr = M_top.dtype.element_ty
    store_mirrored(M_at, i, j, M, M)
    M *= U_UNIT
    A *= U_UNIT
    store_mirrored(square(M_top, row), i, j, M.to(part), M.to(part))
    store_mirrored(square(N_top, row), i, j, (0.5 * M - A).to(part), (0.5 * M + A).to(part))


@triton.jit
def _store_apart(diagonal, i, j, value):
    """Write the diagonal of a symmetric matrix, and return the tile without it."""
    own = i[:, None] == j[None, :]
    tl.store(
        diagonal + i, tl.sum(tl.where(own, value, 0.0), 1), mask=(i >= tl.min(j, 0)) & (i <= tl.max(j, 0))
    )
    return tl.where(own, 0.0, value)


@triton.jit
def large_halves(
    table,
    tiles,  # on and above the diagonal
    inner,  # K
    S_top,  # s x s workspaces of 16 bits
    D_top,  # S/2 - K
    BLOCK: tl.constexpr,
):
    """S and D = S/2 - K."""
    _, row, _, i, j = locate_own(table, tiles, BLOCK, BLOCK)
    K, mirrored = _with_mirror(square(inner, row), i, j)
    part: tl.constexpr = S_top.dtype.element_ty
    S = 0.5 * (K + mirrored)
    store_mirrored(square(S_top, row), i, j, S.to(part), S.to(part))
    store_mirrored(square(D_top, row), i, j, (0.5 * S - K).to(part), (0.5 * S - mirrored).to(part))


@triton.jit
def large_gram(
    table,
    tiles,  # on and above the diagonal
    inner,  # K
    outer,  # G
    product,  # S D
    rates,
    error,  # E = a^2 (G + SD + (SD)^T)
    M_at,  # the first iterate, E/2
    M_top,
    N_top,
    BLOCK: tl.constexpr,
):
    """E and the first iterate."""
    matrix, row, _, i, j = locate_own(table, tiles, BLOCK, BLOCK)
    a = drift_of(rates, matrix, False)
    K, mirrored = _with_mirror(square(inner, row), i, j)
    SD, SD_mirrored = _with_mirror(square(product, row), i, j)
    E = a * a * (as_above(i, j, tl.load(at(square(outer, row), i, j))) + (SD + SD_mirrored))
    store_mirrored(square(error, row), i, j, E, E)
    _store_iterate(square(M_at, row), M_top, N_top, row, i, j, 0.5 * E, 0.5 * a * (K - mirrored))


@triton.jit
def large_iterate(
    table,
    tiles,  # on and above the diagonal
    inner,  # K
    error,  # E
    product,  # M N with N = M/2 - a A
    rates,
    M_at,
    M_top,
    N_top,
    BLOCK: tl.constexpr,
):
    """M <- M + residual/2; the residual is E - 2 M + M N + (M N)^T."""
    matrix, row, _, i, j = locate_own(table, tiles, BLOCK, BLOCK)
    a = drift_of(rates, matrix, False)
    K, mirrored = _with_mirror(square(inner, row), i, j)
    MN, MN_mirrored = _with_mirror(square(product, row), i, j)
    M = 0.5 * (tl.load(at(square(error, row), i, j)) + (MN + MN_mirrored) / (U_UNIT * U_UNIT))
    _store_iterate(square(M_at, row), M_top, N_top, row, i, j, M, 0.5 * a * (K - mirrored))


@triton.jit
def large_normal(
    table,
    tiles,  # on and above the diagonal
    inner,  # K
    M_at,
    rates,
    U_top,  # s x s workspace of 16 bits
    U_diagonal,  # float32 (s,)
    BLOCK: tl.constexpr,
):
    """U = M + a S."""
    matrix, row, _, i, j = locate_own(table, tiles, BLOCK, BLOCK)
    K, mirrored = _with_mirror(square(inner, row), i, j)
    U = tl.load(at(square(M_at, row), i, j)) + 0.5 * drift_of(rates, matrix, False) * (K + mirrored)
    top = (_store_apart(U_diagonal, i, j, U) * U_UNIT).to(U_top.dtype.element_ty)
    store_mirrored(square(U_top, row), i, j, top, top)


@triton.jit
def large_examine(
    table,
    tiles,  # on and above the diagonal
    landed_high,  # X'
    landed_low,
    error,  # s x s workspace of 16 bits: E = X' X'^T - I
    squares,  # float32 (s,): of the rows of E, their sums
    RUN: tl.constexpr,  # products that the matrix units sum before float32 does
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """E, and how large it is."""
    _, row, s, i, j = locate_own(table, tiles, BLOCK, BLOCK)
    high, low = band(landed_high, row), band(landed_low, row)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    part = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, high[1], DEPTH):
        k = start + tl.arange(0, DEPTH)
        right_high, right_low = tl.trans(tl.load(at(high, j, k))), tl.trans(tl.load(at(low, j, k)))
        part = split_dot(tl.load(at(high, i, k)), tl.load(at(low, i, k)), right_high, right_low, part)
        if (start + DEPTH) % RUN == 0:
            total += part
            part = tl.zeros((BLOCK, BLOCK), tl.float32)
    E = as_above(i, j, (total + part) / (X_UNIT * X_UNIT) - identity_tile(i, j, s))
    tl.atomic_add(squares + i, tl.sum(E * E, 1))
    tl.atomic_add(squares + j, tl.sum(E * E, 0), mask=j > tl.max(i, 0))  # not again on the diagonal
    top = (E * E_UNIT).to(error.dtype.element_ty)
    store_mirrored(square(error, row), i, j, top, top)


@triton.jit
def large_mean(
    table,
    tiles,  # on and above the diagonal
    inner,  # K of X'' and the momentum that arrives there
    T_unit,  # float32 (1,): what T is multiplied by before it is stored as float16
    T_top,  # s x s workspace of 16 bits: its symmetric part
    T_diagonal,  # float32 (s,)
    BLOCK: tl.constexpr,
):
    """What of the momentum points off the manifold at X''."""
    _, row, _, i, j = locate_own(table, tiles, BLOCK, BLOCK)
    K, mirrored = _with_mirror(square(inner, row), i, j)
    T = _store_apart(T_diagonal, i, j, 0.5 * (K + mirrored))
    top = (T * tl.load(T_unit)).to(T_top.dtype.element_ty)
    store_mirrored(square(T_top, row), i, j, top, top)
