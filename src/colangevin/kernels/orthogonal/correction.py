"""The last correction: X' onto the manifold, and its momentum into the cotangent space."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.drift import drift_of, inverse
from colangevin.kernels.orthogonal.landing import X_UNIT
from colangevin.kernels.orthogonal.multiply import split_dot
from colangevin.kernels.orthogonal.parts import joined
from colangevin.kernels.orthogonal.residuals import ENOUGH, largest_entry
from colangevin.kernels.orthogonal.symmetric import as_above, store_mirrored, store_split_mirrored
from colangevin.kernels.orthogonal.tiles import (
    at,
    band,
    configuration_at,
    identity_tile,
    locate_own,
    momentum_at,
    square,
)

__all__ = ["correct", "correction", "examine"]

# largest entry of E with which the correction is made
_REACH = tl.constexpr(1e-2)
# what C is multiplied by before it is stored as float16, and the largest entry of T so stored
_C_UNIT = tl.constexpr(65536.0)
_T_LARGEST = tl.constexpr(1024.0)


@triton.jit
def examine(
    table,
    tiles,  # of s x s matrices, on and above the diagonal
    landed_high,  # X'
    landed_low,
    error,  # s x s workspace: E = X' X'^T - I
    error_high,  # s x s workspace: the high part of E
    size,  # float32 (matrices,): largest entry of E
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """E, and how large it is."""
    matrix, row, s, i, j = locate_own(table, tiles, BLOCK, BLOCK)
    if s == 0:  # a matrix that stays where it is
        return
    high, low = band(landed_high, row), band(landed_low, row)
    E = identity_tile(i, j, s) * (-X_UNIT * X_UNIT)
    for start in range(0, high[1], DEPTH):
        k = start + tl.arange(0, DEPTH)
        part = tl.zeros((BLOCK, BLOCK), tl.float32)  # float32 adds the parts, as in ``products``
        right_high, right_low = tl.trans(tl.load(at(high, j, k))), tl.trans(tl.load(at(low, j, k)))
        E += split_dot(tl.load(at(high, i, k)), tl.load(at(low, i, k)), right_high, right_low, part)
    E = as_above(i, j, E / (X_UNIT * X_UNIT))
    store_mirrored(square(error, row), i, j, E, E)
    top = E.to(error_high.dtype.element_ty)
    store_mirrored(square(error_high, row), i, j, top, top)
    tl.atomic_max(size + matrix, largest_entry(E))


@triton.jit
def correction(
    table,
    tiles,  # of s x s matrices, on and above the diagonal
    error,  # E
    error_high,
    size,  # largest entry of E
    C_high,  # s x s workspace: -E/2 + 3 E^2/8, the expansion of (I + E)^(-1/2) - I
    symmetric,  # S', without E/a where quasi-Newton failed
    slant,  # L = 2 S' + A
    extent,  # largest entry of S'
    slant_extent,  # largest entry of L
    landing_size,  # of the quasi-Newton iteration's last residual
    rates,  # float32: one RateRow, or one for each matrix
    T_high,  # s x s workspaces: S' - (EL + (EL)^T)/4, which is S' at X'' to first order in E
    T_low,
    T_unit,  # float32 (matrices,): what T is multiplied by
    MOMENTUM: tl.constexpr,
    VARIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """C and T, for X'' = X' + C X' and P'' = P - T X'.

    E is small: as a factor its high part is enough, and so is the high part of C in ``correct``.
    """
    matrix, row, s, i, j = locate_own(table, tiles, BLOCK, BLOCK)
    if s == 0:  # a matrix that stays where it is
        return
    E_at, L_at = square(error_high, row), square(slant, row)
    EE = tl.zeros((BLOCK, BLOCK), tl.float32)
    above = tl.zeros((BLOCK, BLOCK), tl.float32)  # EL at (i, j)
    below = tl.zeros((BLOCK, BLOCK), tl.float32)  # at (j, i)
    for start in range(0, E_at[1], BLOCK):
        k = start + tl.arange(0, BLOCK)
        here, there = tl.load(at(E_at, i, k)), tl.load(at(E_at, j, k))
        EE = tl.dot(here, tl.trans(there), EE)
        if MOMENTUM:
            above = tl.dot(here, tl.load(at(L_at, k, j)), above)
            below = tl.dot(there, tl.load(at(L_at, k, i)), below)
    E = tl.load(at(square(error, row), i, j))
    C = ((0.375 * EE - 0.5 * E) * _C_UNIT).to(C_high.dtype.element_ty)
    store_mirrored(square(C_high, row), i, j, C, C)
    if MOMENTUM:
        S = tl.load(at(square(symmetric, row), i, j))
        # E changes T by at most this times the largest entry of E
        steepness = 0.5 * s * tl.load(slant_extent + matrix)
        if not (tl.load(landing_size + matrix) <= ENOUGH):
            rate = inverse(drift_of(rates, matrix, VARIES))
            S += rate * E
            steepness += rate
        most = tl.load(extent + matrix) + steepness * tl.load(size + matrix)
        unit = 1.0 / tl.maximum(most, 1e-30) * _T_LARGEST
        T = unit * (S - 0.25 * (above + tl.trans(below)))
        store_split_mirrored(square(T_high, row), square(T_low, row), i, j, T, T)
        tl.store(T_unit + matrix, unit)


@triton.jit
def correct(
    table,
    tiles,  # of s x r matrices
    landed_high,  # X'
    landed_low,
    C_high,
    T_high,
    T_low,
    T_unit,
    size,  # largest entry of X' X'^T - I
    MOMENTUM: tl.constexpr,
    LAYOUT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """X <- X' + C X' and P <- P - T X'; where E is too large for that, X stays and P becomes 0."""
    matrix, row, s, i, k = locate_own(table, tiles, TALL, WIDE)
    if s == 0:  # a matrix that stays where it is
        return
    Ch, Th, Tl = square(C_high, row), square(T_high, row), square(T_low, row)
    Xh, Xl = band(landed_high, row), band(landed_low, row)
    CX = tl.zeros((TALL, WIDE), tl.float32)
    TX = tl.zeros((TALL, WIDE), tl.float32)
    for start in range(0, Ch[1], DEPTH):
        j = start + tl.arange(0, DEPTH)
        high = tl.load(at(Xh, j, k))
        CX = tl.dot(tl.load(at(Ch, i, j)), high, CX)
        if MOMENTUM:
            TX = split_dot(tl.load(at(Th, i, j)), tl.load(at(Tl, i, j)), high, tl.load(at(Xl, j, k)), TX)
    well = tl.load(size + matrix) <= _REACH
    here, inside = configuration_at(row, i, k, LAYOUT)
    if well:
        tl.store(here, (joined(Xh, Xl, i, k) + CX / _C_UNIT) / X_UNIT, mask=inside)
    if MOMENTUM:
        here, inside = momentum_at(row, i, k, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0) - TX / (tl.load(T_unit + matrix) * X_UNIT)
        tl.store(here, tl.where(well, P, 0.0), mask=inside)
