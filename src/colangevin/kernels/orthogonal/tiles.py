"""Where the tiles of a matrix lie: in the workspaces, and in the parameter and its momentum."""

import triton
import triton.language as tl

__all__ = ["at", "band", "copy_at", "identity_tile", "in_memory", "locate", "locate_own", "square"]

# columns of the table: addresses of the configuration X and its momentum P; where the matrix begins in the
# s x r workspaces, in the s x s ones and in the overdamped step's copy of the weights; s and r, and both as
# padded
_COLUMNS = tl.constexpr(9)


@triton.jit
def locate(table, tiles, number, TALL: tl.constexpr, WIDE: tl.constexpr):
    """Number of a tile's matrix, its row of the table, s, and the rows and columns of the tile."""
    matrix = tl.load(tiles + 3 * number)
    i = tl.load(tiles + 3 * number + 1) * TALL + tl.arange(0, TALL)
    j = tl.load(tiles + 3 * number + 2) * WIDE + tl.arange(0, WIDE)
    row = table + matrix * _COLUMNS
    return matrix, row, tl.load(row + 5).to(tl.int32), i, j


@triton.jit
def locate_own(table, tiles, TALL: tl.constexpr, WIDE: tl.constexpr):
    """The same of the program's own tile."""
    return locate(table, tiles, tl.program_id(0), TALL, WIDE)


# Workspaces are passed as pairs: where the matrix begins and the length of its rows. The compiler has to hear
# of their alignment here, where they are made: what is said of a function's argument is lost.


@triton.jit
def band(workspace, row):
    """An s x r matrix in a workspace."""
    return workspace + tl.multiple_of(tl.load(row + 2), 128), tl.multiple_of(
        tl.load(row + 8).to(tl.int32), 128
    )


@triton.jit
def square(workspace, row):
    """An s x s matrix in a workspace."""
    return workspace + tl.multiple_of(tl.load(row + 3), 64), tl.multiple_of(tl.load(row + 7).to(tl.int32), 64)


@triton.jit
def at(matrix, i, j):
    """Addresses of rows i and columns j."""
    return matrix[0] + i[:, None] * matrix[1] + j[None, :]


@triton.jit
def in_memory(address, row, i, k, LAYOUT: tl.constexpr):
    """Addresses of rows i and columns k of an s x r matrix in a parameter or its state, and which exist."""
    base = address.to(tl.pointer_type(tl.float32))
    s, r = tl.load(row + 5).to(tl.int32), tl.load(row + 6).to(tl.int32)
    if LAYOUT == "aligned":  # rows begin at multiples of 64 bytes
        base = tl.multiple_of(base, 16)
        r = tl.multiple_of(r, 16)
    inside = (i[:, None] < s) & (k[None, :] < r)
    if LAYOUT == "tall":  # the weight is X^T
        return base + k[None, :] * s + i[:, None], inside
    return base + i[:, None] * r + k[None, :], inside


@triton.jit
def copy_at(ahead, row):
    """Address of the overdamped step's copy of X."""
    return ahead.to(tl.int64) + 4 * tl.load(row + 4)


@triton.jit
def identity_tile(i, j, s):
    """Rows i and columns j of the s x s unit matrix; the padding is 0."""
    return tl.where((i[:, None] == j[None, :]) & (i[:, None] < s), 1.0, 0.0)
