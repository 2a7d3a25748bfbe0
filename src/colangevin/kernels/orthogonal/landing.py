"""X', by quasi-Newton's M or by Newton-Schulz's Z."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.drift import drift_of, inverse
from colangevin.kernels.orthogonal.multiply import square_product, wide_product
from colangevin.kernels.orthogonal.parts import joined, store_split
from colangevin.kernels.orthogonal.residuals import ENOUGH
from colangevin.kernels.orthogonal.tiles import (
    ahead_at,
    at,
    band,
    configuration_at,
    locate_own,
    momentum_at,
    square,
)

__all__ = ["X_UNIT", "choose", "land"]

# what X' is multiplied by before it is stored as float16
X_UNIT = tl.constexpr(4096.0)


@triton.jit
def choose(
    table,
    tiles,  # of s x s matrices
    inner,  # K
    M_high,
    M_low,
    Z,
    bound,
    size,  # float32 (matrices,): of the quasi-Newton iteration's last residual
    symmetric,  # S of P at X
    skew,  # A of P at X
    rates,  # float32: one RateRow, or one for each matrix
    arrived,  # s x s workspace: A of the momentum that arrives at X'
    U_high,  # s x s workspaces
    U_low,
    Z_high,  # Z without its bound, where quasi-Newton failed
    Z_low,
    D_high,  # U/2a - K, where quasi-Newton converged
    D_low,
    OVERDAMPED: tl.constexpr,
    VARIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The factor of X in X': U = M + a S where quasi-Newton converged, else U = Z - a Z S.

    The skew part A stays as it is where quasi-Newton converged, else it becomes (Z A + A Z)/2. The overdamped
    step has U = M or U = Z: its S is contained in them.
    """
    matrix, row, s, i, j = locate_own(table, tiles, BLOCK, BLOCK)
    if s == 0:  # a matrix that stays where it is
        return
    K_at, Z_at, S_at, A_at = (
        square(inner, row),
        square(Z, row),
        square(symmetric, row),
        square(skew, row),
    )
    a = drift_of(rates, matrix, VARIES)
    if tl.load(size + matrix) <= ENOUGH:
        U = joined(square(M_high, row), square(M_low, row), i, j)
        if not OVERDAMPED:
            U += a * tl.load(at(S_at, i, j))
            D = 0.5 * inverse(a) * U - tl.load(at(K_at, i, j))
            store_split(square(D_high, row), square(D_low, row), i, j, D)
        A = tl.load(at(A_at, i, j))
    else:
        scale = tl.sqrt(tl.load(bound + matrix))
        U = tl.load(at(Z_at, i, j)) / scale
        store_split(square(Z_high, row), square(Z_low, row), i, j, U)
        if not OVERDAMPED:
            U -= a * square_product(Z_at, S_at, i, j, "tf32x3", BLOCK) / scale
        A = square_product(A_at, Z_at, i, j, "tf32", BLOCK)
        A -= square_product(Z_at, A_at, i, j, "tf32", BLOCK)
        A = 0.5 * A / scale
    store_split(square(U_high, row), square(U_low, row), i, j, U)
    if not OVERDAMPED:
        tl.store(at(square(arrived, row), i, j), A)


@triton.jit
def land(
    table,
    tiles,  # of s x r matrices
    ahead,  # the overdamped step's X_bar
    X_high,
    X_low,
    P_high,
    P_low,
    U_high,
    U_low,
    Z_high,
    Z_low,
    size,  # float32 (matrices,): of the quasi-Newton iteration's last residual
    rates,  # float32: one RateRow, or one for each matrix
    landed_high,  # s x r workspaces: X'
    landed_low,
    OVERDAMPED: tl.constexpr,
    VARIES: tl.constexpr,
    LAYOUT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """X' and its momentum: X + aP - UX and P - UX/a; where quasi-Newton failed, UX + aZP and (X' - X)/a."""
    matrix, row, s, i, k = locate_own(table, tiles, TALL, WIDE)
    if s == 0:  # a matrix that stays where it is
        return
    Uh, Ul, Xh, Xl = square(U_high, row), square(U_low, row), band(X_high, row), band(X_low, row)
    V = wide_product(Uh, Ul, Xh, Xl, i, k, TALL, WIDE, DEPTH)
    a = 1.0 if OVERDAMPED else drift_of(rates, matrix, VARIES)
    converged = tl.load(size + matrix) <= ENOUGH
    if not converged:
        Zh, Zl, Ph, Pl = square(Z_high, row), square(Z_low, row), band(P_high, row), band(P_low, row)
        V += a * wide_product(Zh, Zl, Ph, Pl, i, k, TALL, WIDE, DEPTH)
    # Both results below are V plus one of two terms. Written like this they take the fewest registers.
    V *= tl.where(converged, -1.0, 1.0)
    here, inside = configuration_at(row, i, k, LAYOUT)
    X = tl.load(here, mask=inside, other=0.0)
    if OVERDAMPED:
        here, inside = ahead_at(ahead, row, i, k, LAYOUT)
        X_new = tl.where(converged, tl.load(here, mask=inside, other=0.0), 0.0) + V
    else:
        here, inside = momentum_at(row, i, k, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0)
        X_new = tl.where(converged, X + a * P, 0.0) + V
        rate = inverse(a)
        tl.store(here, tl.where(converged, P, -rate * X) + rate * V, mask=inside)
    store_split(band(landed_high, row), band(landed_low, row), i, k, X_new * X_UNIT)
