"""Where the tiles of a matrix lie: in the workspaces, and in the parameter and its momentum."""

import triton
import triton.language as tl

from colangevin.kernels.columns import MatrixRow, TileRow, column, width

__all__ = [
    "ahead_at",
    "at",
    "band",
    "configuration_at",
    "identity_tile",
    "locate",
    "locate_own",
    "momentum_at",
    "own_place_down",
    "square",
]

# columns of the table of matrices
_CONFIGURATION = column(MatrixRow, "configuration")
_MOMENTUM = column(MatrixRow, "momentum")
_BAND = column(MatrixRow, "band")
_SQUARE = column(MatrixRow, "square")
_AHEAD = column(MatrixRow, "ahead")
_S = column(MatrixRow, "s")
_R = column(MatrixRow, "r")
_PADDED_S = column(MatrixRow, "padded_s")
_PADDED_R = column(MatrixRow, "padded_r")
_MATRIX_WIDTH = width(MatrixRow)
# columns of the table of tiles
_MATRIX = column(TileRow, "matrix")
_DOWN = column(TileRow, "down")
_ACROSS = column(TileRow, "across")
_TILE_WIDTH = width(TileRow)


@triton.jit
def locate(table, tiles, number, TALL: tl.constexpr, WIDE: tl.constexpr):
    """Number of a tile's matrix, its row of the table, s, and the rows and columns of the tile."""
    tile = tiles + _TILE_WIDTH * number
    matrix = tl.load(tile + _MATRIX)
    i = tl.load(tile + _DOWN) * TALL + tl.arange(0, TALL)
    j = tl.load(tile + _ACROSS) * WIDE + tl.arange(0, WIDE)
    row = table + matrix * _MATRIX_WIDTH
    return matrix, row, tl.load(row + _S).to(tl.int32), i, j


@triton.jit
def locate_own(table, tiles, TALL: tl.constexpr, WIDE: tl.constexpr):
    """What ``locate`` says of the program's own tile."""
    return locate(table, tiles, tl.program_id(0), TALL, WIDE)


@triton.jit
def own_place_down(tiles):
    """How many tiles lie above the program's own."""
    return tl.load(tiles + _TILE_WIDTH * tl.program_id(0) + _DOWN)


# A matrix in a workspace is a pair: where it begins, and the length of its rows. The compiler is told of
# their alignment where the pair is made: it forgets what is said of a function's argument.


@triton.jit
def band(workspace, row):
    """The matrix of a row of the table in an s x r workspace."""
    start = workspace + tl.multiple_of(tl.load(row + _BAND), 128)
    return start, tl.multiple_of(tl.load(row + _PADDED_R).to(tl.int32), 128)


@triton.jit
def square(workspace, row):
    """The matrix of a row of the table in an s x s workspace."""
    start = workspace + tl.multiple_of(tl.load(row + _SQUARE), 64)
    return start, tl.multiple_of(tl.load(row + _PADDED_S).to(tl.int32), 64)


@triton.jit
def at(matrix, i, j):
    """Addresses of rows i and columns j of a matrix in a workspace."""
    return matrix[0] + i[:, None] * matrix[1] + j[None, :]


@triton.jit
def _in_memory(address, row, i, k, LAYOUT: tl.constexpr):
    """Addresses of rows i and columns k of an s x r matrix outside workspaces, and which of them exist."""
    base = address.to(tl.pointer_type(tl.float32))
    s, r = tl.load(row + _S).to(tl.int32), tl.load(row + _R).to(tl.int32)
    if LAYOUT == "aligned":  # the matrix begins at 16 bytes, its rows are a multiple of 64 bytes long
        base = tl.multiple_of(base, 16)
        r = tl.multiple_of(r, 16)
    inside = (i[:, None] < s) & (k[None, :] < r)
    if LAYOUT == "tall":  # the weight is X^T
        return base + k[None, :] * s + i[:, None], inside
    return base + i[:, None] * r + k[None, :], inside


@triton.jit
def configuration_at(row, i, k, LAYOUT: tl.constexpr):
    """Addresses of rows i and columns k of X, and which of them exist."""
    return _in_memory(tl.load(row + _CONFIGURATION), row, i, k, LAYOUT)


@triton.jit
def momentum_at(row, i, k, LAYOUT: tl.constexpr):
    """Addresses of rows i and columns k of P, and which of them exist."""
    return _in_memory(tl.load(row + _MOMENTUM), row, i, k, LAYOUT)


@triton.jit
def ahead_at(ahead, row, i, k, LAYOUT: tl.constexpr):
    """The same of the overdamped step's X_bar, which lies in a float32 copy of the weights."""
    return _in_memory(ahead.to(tl.int64) + 4 * tl.load(row + _AHEAD), row, i, k, LAYOUT)


@triton.jit
def identity_tile(i, j, s):
    """Rows i and columns j of the s x s unit matrix; the padding is 0."""
    return tl.where((i[:, None] == j[None, :]) & (i[:, None] < s), 1.0, 0.0)
