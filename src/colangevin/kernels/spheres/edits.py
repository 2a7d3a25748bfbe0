"""Stored positions of long rows: where others wrote the weight, they are made from it anew."""

import triton
import triton.language as tl

from colangevin.kernels.chunks import own_block, own_row
from colangevin.kernels.spheres.tiles import POSITION, WEIGHT
from colangevin.kernels.spheres.wide import (
    PARTS_OF_A_PIECE,
    address_of,
    at,
    piece_number,
    piece_places,
    radius_of,
    row_and_piece,
    row_number,
    slack_slot,
    total,
)

__all__ = ["lift", "look", "mend"]


@triton.jit
def look(
    table,  # int64: a SphereRow for each weight
    wide,  # int64: a WideRow for each weight
    chunks,  # int32: a ChunkRow for each program, whose block is a piece of a row
    partials,  # float64 (pieces, 16)
    weight_type: tl.constexpr,
    PIECE: tl.constexpr,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    ALIKE: tl.constexpr,
):
    """Whether a piece of a weight is not the one that its position stands for, and its squared length."""
    weight = own_row(chunks)
    row, piece = row_and_piece(wide, weight, own_block(chunks))
    _, place, slot, inside = piece_places(table, weight, row, piece, PIECE, OUTER, INNER, ALIKE)
    theta = tl.load(address_of(table, weight, WEIGHT, weight_type) + place, mask=inside, other=0.0)
    q = tl.load(address_of(table, weight, POSITION, tl.float32) + slot, mask=inside, other=0.0)
    theta = theta.to(tl.float32)
    changed = (q.to(weight_type).to(tl.float32) != theta) & inside
    x = theta.to(tl.float64) / radius_of(table, weight, row)
    to = partials + piece_number(wide, weight, row, piece) * PARTS_OF_A_PIECE
    tl.store(to, tl.sum(changed.to(tl.float64), 0))
    tl.store(to + 1, tl.sum(x * x, 0))


@triton.jit
def lift(
    table,
    wide,
    chunks,  # int32: a ChunkRow for each program, whose block is a row
    partials,
    factors,  # float64 (rows, 16): what a changed row is multiplied by, 0 for one that nobody changed
    SLACK: tl.constexpr,
    AT_ONCE: tl.constexpr,
):
    """The length that makes a position of a changed row, and the slack of that position."""
    weight = own_row(chunks)
    row = own_block(chunks)
    sums = total(partials, wide, weight, row, AT_ONCE)
    squared = at(sums, 0, 1)
    changed = at(sums, 0, 0) > 0
    r = radius_of(table, weight, row)
    if SLACK:
        slack_at = address_of(table, weight, POSITION, tl.float32) + slack_slot(table, weight, row)
        length = tl.sqrt(squared)
        xi = tl.sqrt(tl.maximum(1.0 - length, 0.0) * (1.0 + length))
        xi = tl.where(tl.load(slack_at) < 0, -xi, xi)
        squared += xi * xi
    lost = squared <= 0
    factor = tl.where(lost, 0.0, 1.0 / tl.sqrt(tl.where(lost, 1.0, squared)))
    factor = tl.where(changed, factor, 0.0)
    if SLACK:
        tl.store(slack_at, (r * factor * xi).to(tl.float32), mask=factor > 0)
    tl.store(factors + row_number(wide, weight, row) * PARTS_OF_A_PIECE, factor)


@triton.jit
def mend(
    table,
    wide,
    chunks,  # int32: a ChunkRow for each program, whose block is a piece of a row
    factors,
    weight_type: tl.constexpr,
    PIECE: tl.constexpr,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    ALIKE: tl.constexpr,
):
    """Write the positions of changed rows."""
    weight = own_row(chunks)
    row, piece = row_and_piece(wide, weight, own_block(chunks))
    factor = tl.load(factors + row_number(wide, weight, row) * PARTS_OF_A_PIECE)
    _, place, slot, inside = piece_places(table, weight, row, piece, PIECE, OUTER, INNER, ALIKE)
    inside = tl.where(inside, factor, 0.0) > 0
    theta = tl.load(address_of(table, weight, WEIGHT, weight_type) + place, mask=inside, other=0.0)
    q = (theta.to(tl.float64) * factor).to(tl.float32)
    tl.store(address_of(table, weight, POSITION, tl.float32) + slot, q, mask=inside)
