"""What the sphere kernels share: where the rows of a tile lie, how they are read, and their projections."""

import triton
import triton.language as tl

from colangevin.kernels.columns import SphereRow, column, width
from colangevin.kernels.orders import reordered

__all__ = [
    "COPY",
    "FIRST",
    "FLAG",
    "MOMENTUM",
    "POSITION",
    "SECOND",
    "SEED",
    "STEP",
    "WEIGHT",
    "WIDTH_OF_TABLE",
    "WORD",
    "load",
    "normalise",
    "origins",
    "placed",
    "settled",
    "sizes",
    "store",
    "tangent",
]

POSITION = column(SphereRow, "position")
MOMENTUM = column(SphereRow, "momentum")
SECOND = column(SphereRow, "second")
STEP = column(SphereRow, "step")
WORD = column(SphereRow, "word")
COPY = column(SphereRow, "copy")
SEED = column(SphereRow, "seed")
FLAG = column(SphereRow, "flag")
FIRST = column(SphereRow, "first")
WIDTH_OF_TABLE = width(SphereRow)
WEIGHT = column(SphereRow, "weight")
_RADII = column(SphereRow, "radii")
_OUTER = column(SphereRow, "outer")
_INNER = column(SphereRow, "inner")
_ROWS = column(SphereRow, "rows")
_ENTRIES = column(SphereRow, "entries")
_STRIDE = column(SphereRow, "stride")
_TINY = tl.constexpr(1.0842021724855044e-19)  # square root of the smallest normal float32


@triton.jit
def normalise(x_bar, x):
    """x_bar / |x_bar| for every row; x where x_bar is the centre, to rounding."""
    norm = tl.sqrt(tl.sum(x_bar * x_bar, 1))[:, None]
    lost = norm <= _TINY
    return tl.where(lost, x, x_bar / tl.where(lost, 1.0, norm))


@triton.jit
def tangent(x, p):
    """The part of p that is orthogonal to x, for every row."""
    return p - tl.sum(x * p, 1)[:, None] * x


@triton.jit
def sizes(line, ALIGNED: tl.constexpr):
    """How many rows a weight has, how many entries each, and how far apart rows of the state begin."""
    rows, n, stride = tl.load(line + _ROWS), tl.load(line + _ENTRIES), tl.load(line + _STRIDE)
    if ALIGNED:
        n, stride = tl.multiple_of(n, 4), tl.multiple_of(stride, 4)
    return rows, n, stride


@triton.jit
def origins(line, grads, weight, weight_type: tl.constexpr, grad_type: tl.constexpr, ALIGNED: tl.constexpr):
    """Where weight, gradient and radii begin."""
    weight_at = tl.load(line + WEIGHT).to(tl.pointer_type(weight_type))
    grad_at = tl.load(grads + weight).to(tl.pointer_type(grad_type))
    if ALIGNED:
        weight_at, grad_at = tl.multiple_of(weight_at, 16), tl.multiple_of(grad_at, 16)
    return weight_at, grad_at, tl.load(line + _RADII).to(tl.pointer_type(tl.float32))


@triton.jit
def placed(
    line,
    first,
    rows,
    n,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    TURNED: tl.constexpr,
):
    """The places of a tile's entries in the weight, and which there are; transposed if ``TURNED``."""
    if TURNED:
        row, column = tl.arange(0, ROWS)[None, :], tl.arange(0, WIDTH)[:, None]
    else:
        row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, WIDTH)[None, :]
    if INNER:
        outer = reordered((first + row).to(tl.int32), tl.load(line + _OUTER), OUTER)
        place = outer + reordered(column, tl.load(line + _INNER), INNER)
    else:
        place = first * n + (row * n + column)
    return place, (row < rows - first) & (column < n)


@triton.jit
def load(at, place, inside, TURNED: tl.constexpr):
    """A tile of numbers, 0 where there are none; neighbours in memory are read together."""
    tile = tl.load(at + place, mask=inside, other=0.0)
    if TURNED:
        tile = tl.trans(tile)
    return tile


@triton.jit
def store(at, place, tile, inside, TURNED: tl.constexpr):
    """Write a tile where there is a place for it."""
    if TURNED:
        tile = tl.trans(tile)
    tl.store(at + place, tile, mask=inside)


@triton.jit
def settled(
    theta,
    raw,
    q,
    unit,
    here,
    exists,
    column,
    n,
    SLACK: tl.constexpr,
    STORED: tl.constexpr,
    SQUARES: tl.constexpr,
    weight_type: tl.constexpr,
):
    """Unit vectors of all rows, and which have a finite gradient. An edited row lies where its weight is."""
    bad = tl.abs(raw) >= float("inf")
    bad = (bad | (raw != raw)).to(tl.int32)
    x = theta * unit
    if STORED:
        # one reduction answers both whether a gradient is bad, as 2, and whether a weight was edited, as 1
        lowered = q * q if SQUARES else q
        changed = here & (lowered.to(weight_type).to(tl.float32) != theta)
        seen = tl.max(bad * 2 + changed.to(tl.int32), 1)[:, None]
        finite = seen < 2
        if tl.max(tl.max(seen, 1), 0) > 0:
            lifted = x
            if SQUARES:
                root = tl.sqrt_rn(tl.maximum(theta, 0.0))
                lifted = tl.where(q < 0, -root, root)
            if SLACK:
                norm = tl.sqrt(tl.sum(x * x, 1))[:, None]
                xi = tl.sqrt(tl.maximum(1.0 - norm, 0.0) * (1.0 + norm))
                lifted = tl.where((column == n) & exists, tl.where(q < 0, -xi, xi), x)
            edited = tl.max(changed.to(tl.int32), 1)[:, None] > 0
            x = tl.where(edited, normalise(lifted, lifted), q * unit)
        else:
            x = q * unit
    else:
        finite = tl.max(bad, 1)[:, None] == 0
    return x, finite
