"""Rows so long that many programs work on each: what their kernels share.

A program has a piece of a row. What a step needs of the whole row are inner products: each piece writes its
part, summed in float64, and one program a row adds the parts up in their order, so that a step gives the same
bits every time. The step is a linear combination of the vectors that it begins with, whose coefficients the
program of the row finds. The slack of a row is that program's too.
"""

import triton
import triton.language as tl

from colangevin.kernels.columns import SphereRow, WideRow, column, width
from colangevin.kernels.orders import reordered
from colangevin.kernels.spheres.tiles import FIRST, WIDTH_OF_TABLE

__all__ = [
    "PARTS_OF_A_PIECE",
    "address_of",
    "at",
    "entries_of",
    "entry_number",
    "number_of",
    "piece_number",
    "piece_places",
    "radius_of",
    "row_and_piece",
    "row_number",
    "slack_slot",
    "total",
    "where_finite",
]

#: float64 numbers that a piece, or a row, has room for
PARTS_OF_A_PIECE = tl.constexpr(16)
_RADII = column(SphereRow, "radii")
_OUTER = column(SphereRow, "outer")
_INNER = column(SphereRow, "inner")
_ENTRIES = column(SphereRow, "entries")
_STRIDE = column(SphereRow, "stride")
_FIRST_ROW = column(WideRow, "first_row")
_FIRST_PIECE = column(WideRow, "first_piece")
_PIECES = column(WideRow, "pieces")
_WIDTH = width(WideRow)


@triton.jit
def address_of(table, weight, COLUMN: tl.constexpr, dtype: tl.constexpr):
    """An address in the table of weights, as a pointer."""
    return tl.load(table + weight * WIDTH_OF_TABLE + COLUMN).to(tl.pointer_type(dtype))


@triton.jit
def number_of(table, weight, COLUMN: tl.constexpr):
    """A number in the table of weights."""
    return tl.load(table + weight * WIDTH_OF_TABLE + COLUMN)


@triton.jit
def radius_of(table, weight, row):
    """The radius of a row of a weight."""
    return tl.load(address_of(table, weight, _RADII, tl.float32) + row)


@triton.jit
def row_and_piece(wide, weight, block):
    """Which row of its weight a program works on, and which piece of it."""
    pieces = tl.load(wide + weight * _WIDTH + _PIECES)
    return block // pieces, block % pieces


@triton.jit
def row_number(wide, weight, row):
    """The number of a row among those of all weights."""
    return tl.load(wide + weight * _WIDTH + _FIRST_ROW) + row


@triton.jit
def piece_number(wide, weight, row, piece):
    """The number of a piece among those of all weights."""
    return (
        tl.load(wide + weight * _WIDTH + _FIRST_PIECE)
        + row * tl.load(wide + weight * _WIDTH + _PIECES)
        + piece
    )


@triton.jit
def piece_places(
    table,
    weight,
    row,
    piece,
    PIECE: tl.constexpr,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    ALIKE: tl.constexpr,
):
    """Numbers of a piece's entries in the row, their places in weight and state, and which there are."""
    line = table + weight * WIDTH_OF_TABLE
    n, stride = tl.load(line + _ENTRIES), tl.load(line + _STRIDE)
    entry = piece * PIECE + tl.arange(0, PIECE)
    if INNER:
        place = reordered(row.to(tl.int32), tl.load(line + _OUTER), OUTER).to(tl.int64)
        place += reordered(entry.to(tl.int32), tl.load(line + _INNER), INNER)
    else:
        place = row * n + entry
    slot = place if ALIKE else row * stride + entry
    return entry, place, slot, entry < n


@triton.jit
def total(partials, wide, weight, row, AT_ONCE: tl.constexpr):
    """The sums over a row's pieces of the 16 numbers that each has written, as a 4 x 4 tile."""
    pieces = tl.load(wide + weight * _WIDTH + _PIECES)
    start = partials + piece_number(wide, weight, row, 0) * PARTS_OF_A_PIECE
    i = tl.arange(0, AT_ONCE)[:, None, None]
    j = tl.arange(0, 4)[None, :, None]
    k = tl.arange(0, 4)[None, None, :]
    found = tl.zeros((AT_ONCE, 4, 4), tl.float64)
    for first in range(0, pieces, AT_ONCE):
        inside = first + i < pieces
        found += tl.load(
            start + (first + i) * PARTS_OF_A_PIECE + j * 4 + k, mask=inside & (j < 4) & (k < 4), other=0.0
        )
    return tl.sum(found, 0)


@triton.jit
def at(tile, j: tl.constexpr, k: tl.constexpr):
    """One number of a 4 x 4 tile."""
    here = (tl.arange(0, 4)[:, None] == j) & (tl.arange(0, 4)[None, :] == k)
    return tl.sum(tl.sum(tl.where(here, tile, 0.0), 1), 0)


@triton.jit
def where_finite(inside, coefficient):
    """Which entries of a row move: none if a coefficient of the row is NaN."""
    found = tl.where(inside, coefficient, float("nan"))
    return found == found


@triton.jit
def slack_slot(table, weight, row):
    """Where the slack of a row is in the state."""
    line = table + weight * WIDTH_OF_TABLE
    return row * tl.load(line + _STRIDE) + tl.load(line + _ENTRIES)


@triton.jit
def entries_of(table, weight):
    """How many entries a row of the weight has."""
    return tl.load(table + weight * WIDTH_OF_TABLE + _ENTRIES)


@triton.jit
def entry_number(table, weight, row, entry, SLACK: tl.constexpr, PARTS: tl.constexpr):
    """The number of an entry in the configuration, for its noise."""
    line = table + weight * WIDTH_OF_TABLE
    if PARTS:
        row += tl.load(line + FIRST)
    return row * (tl.load(line + _ENTRIES) + SLACK) + entry
