"""What a program reads of its weight besides the numbers that it moves."""

import triton
import triton.language as tl

from colangevin.kernels.columns import LineReals, LineRow, column, width
from colangevin.kernels.noise import copy_key

__all__ = [
    "FLAG",
    "MOMENTUM",
    "POSITION",
    "WEIGHT",
    "block_at",
    "count_step",
    "first_element",
    "length_from",
    "noise_key",
    "read_gradient",
    "reals_of",
    "row_of",
]

WEIGHT = column(LineRow, "weight")
MOMENTUM = column(LineRow, "momentum")
POSITION = column(LineRow, "position")
FLAG = column(LineRow, "flag")
_STEP = column(LineRow, "step")
_ELEMENTS = column(LineRow, "elements")
_WORD = column(LineRow, "word")
_COPY = column(LineRow, "copy")
_SEED = column(LineRow, "seed")
_FIRST = column(LineRow, "first")
_WIDTH = width(LineRow)
_RADIUS = column(LineReals, "radius")
_DECAY = column(LineReals, "decay")
_REALS = width(LineReals)


@triton.jit
def row_of(table, weight):
    """A weight's row of the table."""
    return table + weight * _WIDTH


@triton.jit
def reals_of(reals, weight):
    """Radius, 0 for a free weight, and weight decay."""
    mine = reals + _REALS * weight
    return tl.load(mine + _RADIUS), tl.load(mine + _DECAY)


@triton.jit
def noise_key(row):
    """Key of a weight's noise in this step."""
    step = tl.load(tl.load(row + _STEP).to(tl.pointer_type(tl.int64)))
    return copy_key(tl.load(row + _SEED), step, tl.load(row + _WORD), tl.load(row + _COPY))


@triton.jit
def first_element(row, start, PARTS: tl.constexpr):
    """The number of a block's first element, for its noise."""
    if PARTS:
        start += tl.load(row + _FIRST)
    return start


@triton.jit
def count_step(row, start):
    """Add 1 to a parameter's step count, in the program that has the first element of copy 0."""
    if (start == 0) & (tl.load(row + _COPY) == 0):
        count = tl.load(row + _STEP).to(tl.pointer_type(tl.int64))
        tl.store(count, tl.load(count) + 1)


@triton.jit
def block_at(address, start, dtype: tl.constexpr, ALIGNED: tl.constexpr):
    """Where the program's block of a tensor begins, given the address of the tensor."""
    pointer = address.to(tl.pointer_type(dtype)) + start
    if ALIGNED:
        pointer = tl.multiple_of(pointer, 16)
    return pointer


@triton.jit
def length_from(row, start, ALIGNED: tl.constexpr):
    """How many elements of the weight there are from a block's first on."""
    length = tl.load(row + _ELEMENTS) - start
    if ALIGNED:
        length = tl.multiple_of(length, 4)
    return length


@triton.jit
def read_gradient(grad_at, i, inside, flag, MAXIMIZE: tl.constexpr):
    """The gradient, with 0 for what is not finite, and where it is finite. Sets the flag for the rest."""
    raw = tl.load(grad_at + i, mask=inside, other=0.0).to(tl.float32)
    finite = tl.abs(raw) < float("inf")
    tl.store(flag + i * 0, 1, mask=~finite)
    grad = tl.where(finite, raw, 0.0)
    if MAXIMIZE:
        grad = -grad
    return grad, finite
