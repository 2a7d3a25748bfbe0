"""Matrices as tiles: which tiles a kernel works on, and in which shape."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from colangevin.kernels.columns import TileRow

__all__ = ["Matrix", "Shape", "Tiling", "bands", "double_uppers", "products", "squares", "tiles_of", "uppers"]

_TILE = 64  # rows of a tile, and columns of a tile of an s x s matrix
_WIDE = 128  # columns of a tile of an s x r matrix


@dataclass(frozen=True)
class Matrix:
    """One matrix X (s x r, s <= r) in float32 memory, or its transpose."""

    configuration: int  # address of X
    momentum: int  # address of P, 0 without one
    rows: int  # of the weight
    columns: int

    @property
    def layout(self) -> str:
        """How X lies in memory: "tall" is its transpose; "aligned" is "wide" with rows of 16 k numbers."""
        if self.rows > self.columns:
            return "tall"
        aligned = self.columns % 16 == 0 and self.configuration % 16 == 0 and self.momentum % 16 == 0
        return "aligned" if aligned else "wide"

    @property
    def padded(self) -> tuple[int, int]:
        """Size in a workspace: s and r rounded up to whole tiles."""
        s, r = sorted((self.rows, self.columns))
        return -(-s // _TILE) * _TILE, -(-r // _WIDE) * _WIDE

    @property
    def pairs_of_tiles(self) -> bool:
        """Whether an s x s matrix is made of tiles of twice the side."""
        return self.padded[0] % (2 * _TILE) == 0


#: constants of a kernel that say how large its tiles are and how they are laid out
Shape = tuple[tuple[str, Any], ...]
#: of each tile, how many tiles lie above it and to the left of it
Places = list[tuple[int, int]]
Tiling = Callable[[Matrix], tuple[Shape, Places]]


def tiles_of(numbered: list[tuple[int, Matrix]], tiling: Tiling) -> dict[Shape, list[TileRow]]:
    """The tiles of many matrices, by their shape: one launch takes tiles of one shape.

    Args:
        numbered: matrices, each with its row of the table.
        tiling: which tiles of a matrix to take.

    Returns:
        Tiles in the order of the matrices.
    """
    shapes: dict[Shape, list[TileRow]] = {}
    for number, matrix in numbered:
        shape, places = tiling(matrix)
        tiles = [TileRow(matrix=number, down=down, across=across) for down, across in places]
        shapes.setdefault(shape, []).extend(tiles)
    return shapes


def squares(matrix: Matrix) -> tuple[Shape, Places]:
    """All tiles of an s x s matrix."""
    across = range(matrix.padded[0] // _TILE)
    return (("BLOCK", _TILE),), [(i, j) for i in across for j in across]


def uppers(matrix: Matrix) -> tuple[Shape, Places]:
    """The tiles of an s x s matrix on and above the diagonal."""
    shape, places = squares(matrix)
    return shape, [(i, j) for i, j in places if i <= j]


def double_uppers(matrix: Matrix) -> tuple[Shape, Places]:
    """The tiles of twice the side on and above the diagonal of an s x s matrix that is made of them."""
    across = range(matrix.padded[0] // (2 * _TILE))
    return (("BLOCK", 2 * _TILE),), [(i, j) for j in across for i in across if i <= j]


def products(matrix: Matrix) -> tuple[Shape, Places]:
    """All tiles of an s x s matrix, and below them those of another on and above its diagonal."""
    shape, places = squares(matrix)
    below = matrix.padded[0] // _TILE
    return shape, [*places, *((below + i, j) for i, j in places if i <= j)]


def bands(matrix: Matrix) -> tuple[Shape, Places]:
    """All tiles of an s x r matrix."""
    high, long = matrix.padded
    places = [(i, k) for i in range(high // _TILE) for k in range(long // _WIDE)]
    return (("LAYOUT", matrix.layout), ("TALL", _TILE), ("WIDE", _WIDE)), places
