"""The momentum that arrives at X': what of it points off the manifold."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.drift import drift_of, inverse
from colangevin.kernels.orthogonal.multiply import product_and_mirror
from colangevin.kernels.orthogonal.parts import joined
from colangevin.kernels.orthogonal.residuals import ENOUGH, largest_entry
from colangevin.kernels.orthogonal.symmetric import store_mirrored
from colangevin.kernels.orthogonal.tiles import at, identity_tile, locate_own, square

__all__ = ["arrival"]


@triton.jit
def arrival(
    table,
    tiles,  # of s x s matrices, on and above the diagonal
    inner,  # K
    outer,  # G
    skew,  # A of the momentum that arrives at X'
    U_high,
    U_low,
    Z_high,
    Z_low,
    D_high,  # U/2a - K, where quasi-Newton converged
    D_low,
    size,  # float32 (matrices,): of the quasi-Newton iteration's last residual
    rates,  # float32: one RateRow, or one for each matrix
    symmetric,  # S, then S'
    slant,  # s x s workspace of parts: L = 2 S' + A
    extent,  # float32 (matrices,): largest entry of S'
    slant_extent,  # float32 (matrices,): largest entry of L
    VARIES: tl.constexpr,
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """S', the symmetric part of X' P^T for the momentum P that arrives, and L = 2 S' + A.

    Where quasi-Newton failed, S' is (I - V)/a + E/a with V the symmetric part of X' X^T = U + a Z K^T. This
    kernel leaves E/a out, and ``correction`` adds it. There Z K^T is computed at float32's precision, because
    U + a Z K^T is a difference of large numbers.
    """
    matrix, row, s, i, j = locate_own(table, tiles, BLOCK, BLOCK)
    if s == 0:  # a matrix that stays where it is
        return
    a = drift_of(rates, matrix, VARIES)
    Uh, Ul, S_at = square(U_high, row), square(U_low, row), square(symmetric, row)
    if tl.load(size + matrix) <= ENOUGH:
        Dh, Dl = square(D_high, row), square(D_low, row)
        S = product_and_mirror(Uh, Ul, Dh, Dl, i, j, BLOCK, DEPTH) - inverse(a) * joined(Uh, Ul, i, j)
        S += tl.load(at(S_at, i, j)) + a * tl.load(at(square(outer, row), i, j))
    else:
        Zh, Zl, K_at = square(Z_high, row), square(Z_low, row), square(inner, row)
        above = tl.zeros((BLOCK, BLOCK), tl.float32)  # Z K^T at (i, j)
        below = tl.zeros((BLOCK, BLOCK), tl.float32)  # at (j, i)
        for start in range(0, K_at[1], DEPTH):
            k = start + tl.arange(0, DEPTH)
            right = tl.trans(tl.load(at(K_at, j, k)))
            above = tl.dot(joined(Zh, Zl, i, k), right, above, input_precision="tf32x3")
            right = tl.trans(tl.load(at(K_at, i, k)))
            below = tl.dot(joined(Zh, Zl, j, k), right, below, input_precision="tf32x3")
        V = joined(Uh, Ul, i, j) + a * above + tl.trans(joined(Uh, Ul, j, i) + a * below)
        S = inverse(a) * (identity_tile(i, j, s) - 0.5 * V)
    A = tl.load(at(square(skew, row), i, j))
    A = tl.where(i[:, None] <= j[None, :], A, -tl.trans(A))  # exactly skew on the diagonal's tile too
    store_mirrored(S_at, i, j, S, S)
    L, L_mirrored = 2.0 * S + A, 2.0 * S - A
    part: tl.constexpr = slant.dtype.element_ty
    store_mirrored(square(slant, row), i, j, L.to(part), L_mirrored.to(part))
    tl.atomic_max(extent + matrix, largest_entry(S))
    tl.atomic_max(slant_extent + matrix, tl.maximum(largest_entry(L), largest_entry(L_mirrored)))
