"""Products of matrices, a tile at a time."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.tiles import at

__all__ = ["product_and_mirror", "split_dot", "square_product", "wide_product"]


@triton.jit
def split_dot(left_high, left_low, right_high, right_low, total):
    """Total plus the product of two tiles in two parts each, without that of both low parts."""
    total = tl.dot(left_low, right_high, total)
    total = tl.dot(left_high, right_low, total)
    return tl.dot(left_high, right_high, total)


@triton.jit
def wide_product(
    high, low, band_high, band_low, i, k, TALL: tl.constexpr, WIDE: tl.constexpr, DEPTH: tl.constexpr
):
    """Tile (i, k) of the product of an s x s and an s x r matrix, each in two parts."""
    total = tl.zeros((TALL, WIDE), tl.float32)
    for start in range(0, high[1], DEPTH):
        j = start + tl.arange(0, DEPTH)
        total = split_dot(
            tl.load(at(high, i, j)),
            tl.load(at(low, i, j)),
            tl.load(at(band_high, j, k)),
            tl.load(at(band_low, j, k)),
            total,
        )
    return total


@triton.jit
def square_product(left, right, i, j, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """Tile (i, j) of L R^T for two s x s matrices."""
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, left[1], BLOCK):
        k = start + tl.arange(0, BLOCK)
        columns = tl.trans(tl.load(at(right, j, k)))
        total = tl.dot(tl.load(at(left, i, k)), columns, total, input_precision=PRECISION)
    return total


@triton.jit
def product_and_mirror(
    left_high, left_low, right_high, right_low, i, j, BLOCK: tl.constexpr, DEPTH: tl.constexpr
):
    """Tile (i, j) of L R + (L R)^T for two s x s matrices in two parts each."""
    above = tl.zeros((BLOCK, BLOCK), tl.float32)  # L R at (i, j)
    below = tl.zeros((BLOCK, BLOCK), tl.float32)  # at (j, i)
    for start in range(0, left_high[1], DEPTH):
        k = start + tl.arange(0, DEPTH)
        above = split_dot(
            tl.load(at(left_high, i, k)),
            tl.load(at(left_low, i, k)),
            tl.load(at(right_high, k, j)),
            tl.load(at(right_low, k, j)),
            above,
        )
        below = split_dot(
            tl.load(at(left_high, j, k)),
            tl.load(at(left_low, j, k)),
            tl.load(at(right_high, k, i)),
            tl.load(at(right_low, k, i)),
            below,
        )
    return above + tl.trans(below)
