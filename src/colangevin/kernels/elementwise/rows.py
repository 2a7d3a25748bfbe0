"""What a program reads of its weight besides the numbers that it moves."""

import triton
import triton.language as tl

from colangevin.kernels.columns import LineReals, LineRow, column, width
from colangevin.kernels.noise import copy_key, normals_from, normals_of
from colangevin.kernels.orders import reordered

__all__ = [
    "FLAG",
    "MOMENTUM",
    "POSITION",
    "SECOND",
    "WEIGHT",
    "block_at",
    "block_normals",
    "count_step",
    "elements_of",
    "length_from",
    "noise_key",
    "radii_of",
    "read_gradient",
    "reals_of",
    "row_of",
]

WEIGHT = column(LineRow, "weight")
MOMENTUM = column(LineRow, "momentum")
POSITION = column(LineRow, "position")
SECOND = column(LineRow, "second")
FLAG = column(LineRow, "flag")
_STEP = column(LineRow, "step")
_RADII = column(LineRow, "radii")
_ORDER = column(LineRow, "order")
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
def radii_of(row, r, start, i, inside, RADII: tl.constexpr, ALIGNED: tl.constexpr):
    """The radius of each element of a block, given the one of the weight: 0 for a free one."""
    if RADII:
        radii_at = block_at(tl.load(row + _RADII), start, tl.float32, ALIGNED)
        radii = tl.load(radii_at + i, mask=inside, other=1.0)
    else:
        radii = tl.where(r > 0, r, 1.0)
    return radii


@triton.jit
def noise_key(row):
    """Key of a weight's noise in this step."""
    step = tl.load(tl.load(row + _STEP).to(tl.pointer_type(tl.int64)))
    return copy_key(tl.load(row + _SEED), step, tl.load(row + _WORD), tl.load(row + _COPY))


@triton.jit
def elements_of(row, start, BLOCK: tl.constexpr, PARTS: tl.constexpr, DIGITS: tl.constexpr):
    """The numbers of a block's elements, for their noise."""
    i = tl.arange(0, BLOCK)
    if DIGITS:
        element = reordered((start + i).to(tl.int32), tl.load(row + _ORDER), DIGITS).to(tl.int64)
    else:
        element = start + i
    if PARTS:
        element += tl.load(row + _FIRST)
    return element


@triton.jit
def block_normals(key, row, start, BLOCK: tl.constexpr, PARTS: tl.constexpr, DIGITS: tl.constexpr):
    """A standard normal number for each element of a block."""
    if DIGITS:
        found = normals_of(key, elements_of(row, start, BLOCK, PARTS, DIGITS))
    else:
        first = start
        if PARTS:
            first += tl.load(row + _FIRST)
        found = normals_from(key, first, BLOCK, PARTS)
    return found


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
