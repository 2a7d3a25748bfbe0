"""Symmetric matrices: a program computes a tile on or above the diagonal, and writes its mirror image too."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.tiles import at

__all__ = ["as_above", "store_mirrored", "store_split_mirrored"]


@triton.jit
def as_above(i, j, value):
    """A tile on the diagonal made symmetric from its upper half; a tile above the diagonal as it is."""
    return tl.where(i[:, None] <= j[None, :], value, tl.trans(value))


@triton.jit
def store_mirrored(matrix, i, j, value, mirrored):
    """Write a tile on or above the diagonal, and the transpose of another tile to the mirrored place.

    For a tile on the diagonal both places are the same, so both have to be equal to the last bit. Masks for
    the two halves would do without that, but then every tile would be written number by number.
    """
    tl.store(at(matrix, i, j), value)
    tl.store(at(matrix, j, i), tl.trans(mirrored))


@triton.jit
def store_split_mirrored(high, low, i, j, value, mirrored):
    """What ``store_mirrored`` does, for a matrix in two parts."""
    part: tl.constexpr = high[0].dtype.element_ty
    top, mirrored_top = value.to(part), mirrored.to(part)
    store_mirrored(high, i, j, top, mirrored_top)
    rest, mirrored_rest = value - top.to(tl.float32), mirrored - mirrored_top.to(tl.float32)
    store_mirrored(low, i, j, rest.to(part), mirrored_rest.to(part))
