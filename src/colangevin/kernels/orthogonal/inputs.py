"""What a step begins with: X and P in two parts each, their products, and what follows from those."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.drift import drift_of
from colangevin.kernels.orthogonal.multiply import split_dot
from colangevin.kernels.orthogonal.parts import store_split
from colangevin.kernels.orthogonal.symmetric import as_above, store_mirrored
from colangevin.kernels.orthogonal.tiles import (
    ahead_at,
    at,
    band,
    configuration_at,
    identity_tile,
    locate_own,
    momentum_at,
    own_place_down,
    square,
)

__all__ = ["halves", "products", "split"]


@triton.jit
def split(
    table,
    tiles,  # of s x r matrices
    ahead,  # the overdamped step's X_bar, laid out as the weights are
    X_high,  # s x r workspaces
    X_low,
    P_high,
    P_low,
    OVERDAMPED: tl.constexpr,
    LAYOUT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
):
    """X and P in two parts; the overdamped step has X_bar - X for P."""
    _, row, s, i, k = locate_own(table, tiles, TALL, WIDE)
    if s == 0:  # a matrix that stays where it is
        return
    here, inside = configuration_at(row, i, k, LAYOUT)
    X = tl.load(here, mask=inside, other=0.0)
    store_split(band(X_high, row), band(X_low, row), i, k, X)
    if OVERDAMPED:
        here, inside = ahead_at(ahead, row, i, k, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0) - X
    else:
        here, inside = momentum_at(row, i, k, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0)
    store_split(band(P_high, row), band(P_low, row), i, k, P)


@triton.jit
def products(
    table,
    tiles,  # of s x s matrices: all of K, and below them those of G on and above the diagonal
    X_high,
    X_low,
    P_high,
    P_low,
    inner,  # s x s workspace: K
    outer,  # s x s workspace: G
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """K = X P^T and G = P P^T."""
    _, row, s, i, j = locate_own(table, tiles, BLOCK, BLOCK)
    if s == 0:  # a matrix that stays where it is
        return
    K, G = square(inner, row), square(outer, row)
    twice = own_place_down(tiles) * BLOCK >= K[1]  # a tile of G, whose left factor is P too
    i -= tl.where(twice, K[1], 0)
    Lh = band(tl.where(twice, P_high, X_high), row)
    Ll = band(tl.where(twice, P_low, X_low), row)
    Ph, Pl = band(P_high, row), band(P_low, row)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, Ph[1], DEPTH):
        k = start + tl.arange(0, DEPTH)
        right_high, right_low = tl.trans(tl.load(at(Ph, j, k))), tl.trans(tl.load(at(Pl, j, k)))
        # The matrix units truncate sums towards 0, so the error of a long sum grows with its length. They sum
        # DEPTH products at a time, and float32 additions the rest.
        part = tl.zeros((BLOCK, BLOCK), tl.float32)
        total += split_dot(tl.load(at(Lh, i, k)), tl.load(at(Ll, i, k)), right_high, right_low, part)
    if twice:
        total = as_above(i, j, total)
        store_mirrored(G, i, j, total, total)
    else:
        tl.store(at(K, i, j), total)


@triton.jit
def halves(
    table,
    tiles,  # of s x s matrices
    inner,  # K
    rates,  # float32: one RateRow, or one for each matrix
    symmetric,  # s x s workspace: S
    skew,  # s x s workspace: A
    slope,  # s x s workspace: B = X X_bar^T
    S_high,
    S_low,
    D_high,  # S/2 - K
    D_low,
    OVERDAMPED: tl.constexpr,
    VARIES: tl.constexpr,  # whether there is a row of rates for each matrix
    BLOCK: tl.constexpr,
):
    """S and A, the symmetric and the skew part of K, and B: I + a A, or I + K in the overdamped step."""
    matrix, row, s, i, j = locate_own(table, tiles, BLOCK, BLOCK)
    if s == 0:  # a matrix that stays where it is
        return
    K_at = square(inner, row)
    K, K_mirrored = tl.load(at(K_at, i, j)), tl.trans(tl.load(at(K_at, j, i)))
    S, A = 0.5 * (K + K_mirrored), 0.5 * (K - K_mirrored)
    tl.store(at(square(symmetric, row), i, j), S)
    tl.store(at(square(skew, row), i, j), A)
    store_split(square(S_high, row), square(S_low, row), i, j, S)
    store_split(square(D_high, row), square(D_low, row), i, j, 0.5 * S - K)
    B = K if OVERDAMPED else drift_of(rates, matrix, VARIES) * A
    tl.store(at(square(slope, row), i, j), identity_tile(i, j, s) + B)
