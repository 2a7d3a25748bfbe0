"""Symmetric matrices: tiles on and above the diagonal are computed, the others are their mirror images."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.tiles import at

__all__ = ["as_above", "store_mirrored", "store_split_mirrored"]


@triton.jit
def as_above(i, j, value):
    """A tile on the diagonal with its upper half on both sides; every other tile as it is."""
    return tl.where(i[:, None] <= j[None, :], value, tl.trans(value))


@triton.jit
def store_mirrored(matrix, i, j, value, mirrored):
    """Write a tile on or above the diagonal and, on the other side, the mirror image of another.

    A tile on the diagonal is its own other side, where both have to be the same to the last bit: with masks
    for its halves every tile would be written number by number.
    """
    tl.store(at(matrix, i, j), value)
    tl.store(at(matrix, j, i), tl.trans(mirrored))


@triton.jit
def store_split_mirrored(high, low, i, j, value, mirrored):
    """The same in two parts."""
    part: tl.constexpr = high[0].dtype.element_ty
    top, mirrored_top = value.to(part), mirrored.to(part)
    store_mirrored(high, i, j, top, mirrored_top)
    rest, mirrored_rest = value - top.to(tl.float32), mirrored - mirrored_top.to(tl.float32)
    store_mirrored(low, i, j, rest.to(part), mirrored_rest.to(part))
