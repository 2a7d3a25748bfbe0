"""The projection of momenta onto the cotangent space."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.multiply import wide_product
from colangevin.kernels.orthogonal.tiles import band, locate_own, momentum_at, square

__all__ = ["tangent"]


@triton.jit
def tangent(
    table,
    tiles,  # of s x r matrices
    X_high,
    X_low,
    S_high,
    S_low,
    LAYOUT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """P <- P - S X."""
    _, row, _, i, k = locate_own(table, tiles, TALL, WIDE)
    Sh, Sl, Xh, Xl = square(S_high, row), square(S_low, row), band(X_high, row), band(X_low, row)
    SX = wide_product(Sh, Sl, Xh, Xl, i, k, TALL, WIDE, DEPTH)
    here, inside = momentum_at(row, i, k, LAYOUT)
    tl.store(here, tl.load(here, mask=inside, other=0.0) - SX, mask=inside)
