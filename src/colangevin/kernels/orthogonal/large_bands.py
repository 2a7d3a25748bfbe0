"""What is s x r in a step of a large matrix, around products that cuBLAS makes."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.drift import drift_of, inverse
from colangevin.kernels.orthogonal.landing import X_UNIT
from colangevin.kernels.orthogonal.large_squares import C_UNIT, U_UNIT
from colangevin.kernels.orthogonal.parts import joined, store_split
from colangevin.kernels.orthogonal.residuals import largest_entry
from colangevin.kernels.orthogonal.tiles import at, band, configuration_at, locate_own, momentum_at

__all__ = ["ENOUGH", "large_correct", "large_extent", "large_finish", "large_land", "large_split"]

# Largest sum of squares of a row of E = X' X'^T - I with which a landing is taken. The correction leaves E^3.
ENOUGH = tl.constexpr(2e-5)


@triton.jit
def large_extent(
    table,
    tiles,  # of s x r matrices
    extent,  # float32 (1,)
    LAYOUT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The largest entry of P."""
    _, row, _, i, k = locate_own(table, tiles, TALL, WIDE)
    here, inside = momentum_at(row, i, k, LAYOUT)
    tl.atomic_max(extent, largest_entry(tl.load(here, mask=inside, other=0.0)))


@triton.jit
def large_split(
    table,
    tiles,  # of s x r matrices
    P_unit,  # float32 (1,): what P is multiplied by before it is stored as float16
    X_fine,  # s x r workspaces of 16 bits
    P_fine,
    LAYOUT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
):
    """X and P as float16."""
    _, row, _, i, k = locate_own(table, tiles, TALL, WIDE)
    here, inside = configuration_at(row, i, k, LAYOUT)
    X = tl.load(here, mask=inside, other=0.0)
    tl.store(at(band(X_fine, row), i, k), (X * X_UNIT).to(X_fine.dtype.element_ty))
    here, inside = momentum_at(row, i, k, LAYOUT)
    P = tl.load(here, mask=inside, other=0.0)
    tl.store(at(band(P_fine, row), i, k), (P * tl.load(P_unit)).to(P_fine.dtype.element_ty))


@triton.jit
def large_land(
    table,
    tiles,  # of s x r matrices
    U_diagonal,
    rates,
    product,  # U X without the diagonal of U; becomes the momentum
    landed_high,  # s x r workspaces: X'
    landed_low,
    P_high,  # and its momentum
    P_low,
    LAYOUT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
):
    """X' = X + aP - UX, and its momentum P - UX/a."""
    matrix, row, _, i, k = locate_own(table, tiles, TALL, WIDE)
    a = drift_of(rates, matrix, False)
    here, inside = configuration_at(row, i, k, LAYOUT)
    X = tl.load(here, mask=inside, other=0.0)
    here, inside = momentum_at(row, i, k, LAYOUT)
    P = tl.load(here, mask=inside, other=0.0)
    there = at(band(product, row), i, k)
    UX = tl.load(there) / (U_UNIT * X_UNIT) + tl.load(U_diagonal + i)[:, None] * X
    store_split(band(landed_high, row), band(landed_low, row), i, k, (X + a * P - UX) * X_UNIT)
    P -= inverse(a) * UX
    store_split(band(P_high, row), band(P_low, row), i, k, P)
    tl.store(there, P)


@triton.jit
def large_correct(
    table,
    tiles,  # of s x r matrices
    landed_high,  # X'; becomes X''
    landed_low,
    product,  # C X'; becomes X''
    X_high,  # s x r workspaces: X'' in the range of float32
    X_low,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
):
    """X'' = X' + C X'."""
    _, row, _, i, k = locate_own(table, tiles, TALL, WIDE)
    high, low = band(landed_high, row), band(landed_low, row)
    X = joined(high, low, i, k) / X_UNIT
    there = at(band(product, row), i, k)
    X += tl.load(there) / (C_UNIT * X_UNIT)
    store_split(band(X_high, row), band(X_low, row), i, k, X)
    store_split(high, low, i, k, X * X_UNIT)
    tl.store(there, X)


@triton.jit
def large_finish(
    table,
    tiles,  # of s x r matrices
    corrected,  # X''
    P_at,  # its momentum
    product,  # T X'' without the diagonal of T
    T_diagonal,
    T_unit,  # float32 (1,): what T is multiplied by
    largest,  # float32 (1,): largest sum of squares of a row of E
    LAYOUT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
):
    """X <- X'' and P <- P'' - T X'', where the landing was near enough."""
    _, row, _, i, k = locate_own(table, tiles, TALL, WIDE)
    if tl.load(largest) <= ENOUGH:
        X = tl.load(at(band(corrected, row), i, k))
        P = tl.load(at(band(P_at, row), i, k))
        P -= tl.load(at(band(product, row), i, k)) / (tl.load(T_unit) * X_UNIT)
        P -= tl.load(T_diagonal + i)[:, None] * X
        here, inside = configuration_at(row, i, k, LAYOUT)
        tl.store(here, X, mask=inside)
        here, inside = momentum_at(row, i, k, LAYOUT)
        tl.store(here, P, mask=inside)
