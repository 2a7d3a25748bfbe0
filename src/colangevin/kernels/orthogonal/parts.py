"""Matrices in two parts: every number is the sum of two numbers of 16 bits, high and low."""

import triton
import triton.language as tl

from colangevin.kernels.orthogonal.tiles import at

__all__ = ["joined", "store_split"]


@triton.jit
def store_split(high, low, i, j, value):
    """Write a float32 tile in two parts."""
    top = value.to(high[0].dtype.element_ty)
    tl.store(at(high, i, j), top)
    tl.store(at(low, i, j), (value - top.to(tl.float32)).to(low[0].dtype.element_ty))


@triton.jit
def joined(high, low, i, j):
    """A tile as float32, from its two parts."""
    return tl.load(at(high, i, j)).to(tl.float32) + tl.load(at(low, i, j)).to(tl.float32)
