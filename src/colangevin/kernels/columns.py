"""The columns of the tables that the host fills and the kernels read.

A table has one class here, whose fields are its columns. The host builds a row by keyword. A kernel finds a
column by its name: :func:`column` gives the offset, :func:`width` the length of a row. A new order of the
fields therefore moves a column on both sides.

A kernel takes every offset from a ``tl.constexpr`` among the globals of its module. Triton looks for compiled
kernels by the values of such globals; attributes of a class or of another module are no part of that key.
"""

from typing import Any, NamedTuple

import triton.language as tl

__all__ = [
    "AdamRow",
    "ChunkRow",
    "DigitRow",
    "LineReals",
    "LineRow",
    "MatrixRow",
    "MuonReals",
    "MuonRow",
    "RateRow",
    "SphereRow",
    "TileRow",
    "WideRow",
    "column",
    "width",
]


class LineRow(NamedTuple):
    """One copy of a weight whose elements move one by one, as int64."""

    weight: int  # address
    momentum: int  # address, 0 without one
    position: int  # address of the angles, 0 on a line
    second: int  # address of Adam's averages of squares, 0 without them
    step: int  # address of the step count
    radii: int  # address of a radius for each element, as the weight lies; 0 where all have one
    order: (
        int  # address of the digits that lead from places in memory to numbers of elements, 0 if they agree
    )
    elements: int
    word: int  # of the parameter's noise
    copy: int  # number of the copy
    seed: int
    flag: int  # index of the flag for a gradient that is not finite
    first: int  # element, as the whole counts it that the weight is a part of


class LineReals(NamedTuple):
    """The real numbers of the same copy, as float32."""

    radius: float  # 0 for a free weight; of a weight with many, any of them
    decay: float  # weight decay


class SphereRow(NamedTuple):
    """One copy of a weight whose rows lie on spheres, as int64."""

    weight: int  # address
    momentum: int  # address, 0 without one
    position: int  # address, 0 where the weight itself is the position
    second: int  # address of Adam's averages of squares, 0 without them
    step: int  # address of the step count
    radii: int  # address of a radius for each row
    outer: int  # address of the digits that lead from the number of a row to its place; 0 where rows follow
    inner: int  # address of those that lead from the number of an entry to its place in its row
    rows: int  # number of rows
    entries: int  # of a row of the weight
    stride: int  # of a row of momentum and position, padding included
    word: int  # of the parameter's noise
    copy: int  # number of the copy
    seed: int
    flag: int  # index of the flag for a gradient that is not finite
    first: int  # row, as the whole counts it that the weight is a part of


class WideRow(NamedTuple):
    """The same copy where many programs work on one row, as int64."""

    first_row: int  # number of its first row among the rows of all weights
    first_piece: int  # number of its first piece among the pieces of all rows
    pieces: int  # of a row


class MatrixRow(NamedTuple):
    """One s x r matrix X with orthonormal rows, as int64."""

    configuration: int  # address of X, or of its transpose
    momentum: int  # address of P, 0 without one
    band: int  # where the matrix begins in the s x r workspaces
    square: int  # and in the s x s workspaces
    ahead: int  # and in the overdamped step's copy of the weights
    s: int
    r: int
    padded_s: int  # s and r rounded up to whole tiles
    padded_r: int


class MuonRow(NamedTuple):
    """One matrix that Muon moves, as int64."""

    weight: int  # address
    momentum: int  # address
    position: int  # address, 0 where the weight itself is the position
    radii: int  # address of a radius for each slice, 0 without any
    flag: int  # index of the flag for a gradient that is not finite


class MuonReals(NamedTuple):
    """The numbers of Muon's step of a matrix, as float32; on the host some may still be tensors."""

    lr: Any
    weight_decay: Any
    momentum: float  # beta
    scale: float  # of lr, by the matrix's shape


class TileRow(NamedTuple):
    """The tile that a program of the orthogonality kernels works on, as int32."""

    matrix: int  # row of the table of matrices
    down: int  # place of the tile in the matrix, counted in tiles
    across: int


class ChunkRow(NamedTuple):
    """The block that a program of the other kernels works on, as int32."""

    row: int  # of the table of weights
    block: int  # number of the block in its weight


class RateRow(NamedTuple):
    """The numbers of a step, as float32; on the host some may still be tensors.

    An underdamped step has those of one letter each: A adds a p to q, B subtracts b times the force from p,
    O takes p to c p + d R with standard normal R. The overdamped step has its h as ``kick`` and its sigma as
    ``noise_scale``.
    """

    drift: Any  # a
    kick: Any  # b
    decay: Any  # c
    noise_scale: Any  # d


class AdamRow(NamedTuple):
    """The numbers of a step of Adam, as float32; on the host some may still be tensors."""

    lr: Any
    decay: Any  # weight decay
    first: Any  # 1 - beta_1, the weight of a gradient in its average
    second: Any  # 1 - beta_2, the weight of its square
    eps: Any


class DigitRow(NamedTuple):
    """One digit of what leads from one order of elements to another, the fastest first, as int32."""

    size: int  # how many values it takes
    stride: int  # how far a step of it leads in the other order


def column(row: Any, name: str) -> tl.constexpr:
    """The offset of a column from the beginning of a row.

    Args:
        row: class of the table's rows.
        name: of the column.

    Returns:
        A constant for kernels.
    """
    return tl.constexpr(row._fields.index(name))


def width(row: Any) -> tl.constexpr:
    """How many columns a table has: the distance of two rows."""
    return tl.constexpr(len(row._fields))
