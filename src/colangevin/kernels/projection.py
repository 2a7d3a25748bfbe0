"""The launches of an orthogonality step: momenta made cotangent, and drifts with their projection."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import triton
from torch import Tensor

from colangevin.constraints import solves
from colangevin.kernels.columns import MatrixRow, TileRow
from colangevin.kernels.launch import Launch
from colangevin.kernels.orthogonal import (
    arrival,
    correction,
    counting,
    inputs,
    landing,
    polar,
    quasi_newton,
    tangency,
)

__all__ = ["Matrices", "Matrix"]

_TILE = 64  # rows of a tile, and columns of one of an s x s matrix
_WIDE = 128  # columns of one of an s x r matrix
_PART = torch.bfloat16  # two of which make up a float32 number
_FINE_PART = torch.float16  # two of which are as good as one, where its size is known
# how much of a sum over r and of one over s is loaded at a time
_LONG, _SHORT = 64, 32
# As Orthogonal: who has not come to 1e-4 by then takes the polar factor. A launch that finds nothing left to
# do costs a few microseconds. 24 iterations of Newton-Schulz are enough for steps up to h|P| = 300. All these
# numbers are even, so that results are in the first workspace.
_QUASI_NEWTON = 24
_NEWTON_SCHULZ = 24
# The quasi-Newton iterations that most steps need have launches of their own, unless there are so few tiles
# that the launch that makes all others can have a program for each.
_COMMON = 8


Shape = tuple[tuple[str, Any], ...]
Places = list[tuple[int, int]]


@dataclass(frozen=True)
class Matrix:
    """One matrix X (s x r, s <= r) in float32 memory, or its transpose."""

    configuration: int  # address of X
    momentum: int  # address of P, 0 without
    rows: int  # of the weight
    columns: int

    @property
    def layout(self) -> str:
        """How X lies in memory, as the kernels tell it apart."""
        if self.rows > self.columns:
            return "tall"
        aligned = self.columns % 16 == 0 and self.configuration % 16 == 0 and self.momentum % 16 == 0
        return "aligned" if aligned else "wide"

    @property
    def padded(self) -> tuple[int, int]:
        """Size in a workspace: s and r rounded up to whole tiles."""
        s, r = sorted((self.rows, self.columns))
        return -(-s // _TILE) * _TILE, -(-r // _WIDE) * _WIDE


Tiling = Callable[[Matrix], tuple[Shape, Places]]
Launches = list[tuple[Launch, Tensor]]


class Matrices:
    """A table of matrices on one device, and the launches that move all of them.

    Args:
        matrices: what is to be moved.
        upload: brings a table to their device.
        overdamped: whether there are no momenta.
        varies: whether there is a row of rates for each matrix.
    """

    def __init__(
        self,
        matrices: Sequence[Matrix],
        upload: Callable[[Sequence[Any], torch.dtype], Tensor],
        *,
        overdamped: bool,
        varies: bool,
    ) -> None:
        self.matrices = len(matrices)
        self.count = -(-len(matrices) // 4) * 4  # every row of the tables of sizes begins at 16 bytes
        #: where each matrix begins in the overdamped step's copy of the weights
        self.offsets: list[int] = []
        rows: list[MatrixRow] = []
        band = square = copied = 0
        for matrix in matrices:
            s, r = sorted((matrix.rows, matrix.columns))
            high, long = matrix.padded
            if matrix.layout == "aligned":  # of several copies in a row only the first can need it
                copied = -(-copied // 16) * 16
            self.offsets.append(copied)
            rows.append(
                MatrixRow(
                    configuration=matrix.configuration,
                    momentum=matrix.momentum,
                    band=band,
                    square=square,
                    ahead=copied,
                    s=s,
                    r=r,
                    padded_s=high,
                    padded_r=long,
                )
            )
            band += high * long
            square += high * high
            copied += s * r
        self.band_size, self.square_size, self.copy_size = band, square, copied
        self.table = upload(rows, torch.int64)
        self.device = self.table.device
        self._compose(matrices, upload, overdamped, varies)

    def _compose(
        self,
        matrices: Sequence[Matrix],
        upload: Callable[[Sequence[Any], torch.dtype], Tensor],
        overdamped: bool,
        varies: bool,
    ) -> None:
        """Every launch, with its tiles and what else does not change from step to step."""
        # the longest first: the short ones then fill the gaps
        order = sorted(enumerate(matrices), key=lambda each: -math.prod(each[1].padded))

        def over(tiling: Tiling, function: Any, **constants: Any) -> Launches:
            """A launch for each shape of tile."""
            shapes: dict[Shape, list[TileRow]] = {}
            for number, matrix in order:
                shape, places = tiling(matrix)
                shapes.setdefault(shape, []).extend(_tile_rows(number, places))
            return [
                (Launch(function, len(tiles), **dict(shape), **constants), upload(tiles, torch.int32))
                for shape, tiles in shapes.items()
            ]

        momentum = not overdamped
        self._split = over(_bands, inputs.split, OVERDAMPED=overdamped)
        self._inner = over(_squares, inputs.products, DEPTH=_LONG)
        self._halves = over(_squares, inputs.halves, OVERDAMPED=overdamped, VARIES=varies)
        self._tangent = over(_bands, tangency.tangent, DEPTH=_SHORT)
        self._products = over(_products, inputs.products, DEPTH=_LONG)
        self._gram = over(_uppers, quasi_newton.gram, OVERDAMPED=overdamped, VARIES=varies, DEPTH=_SHORT)
        self._quasi_newton = over(_uppers, quasi_newton.quasi_newton, DEPTH=_SHORT)
        uppers = [tile for number, matrix in order for tile in _tile_rows(number, _uppers(matrix)[1])]
        squares = [tile for number, matrix in order for tile in _tile_rows(number, _squares(matrix)[1])]
        self._apart = 0 if len(uppers) <= self._places else _COMMON
        left = {"ITERATIONS": _QUASI_NEWTON - self._apart, "DEPTH": _SHORT}
        together = self._together(quasi_newton.quasi_newton_to_the_end, len(uppers), **left)
        self._to_the_end = [(together, upload(uppers, torch.int32))]
        together = self._together(polar.polar, len(squares), ITERATIONS=_NEWTON_SCHULZ)
        self._polar = [(together, upload(squares, torch.int32))]
        self._count = Launch(
            counting.count,
            1,
            row=self.count,
            matrices=self.matrices,
            ROWS=_QUASI_NEWTON + 1,
            MATRICES=triton.next_power_of_2(self.count),
            **{name.upper(): place for place, name in enumerate(solves.Solves._fields)},
        )
        self._choose = over(_squares, landing.choose, OVERDAMPED=overdamped, VARIES=varies, num_stages=2)
        self._arrival = over(_uppers, arrival.arrival, VARIES=varies, DEPTH=_SHORT)
        self._land = over(_bands, landing.land, OVERDAMPED=overdamped, VARIES=varies, DEPTH=_SHORT)
        self._examine = over(_uppers, correction.examine, DEPTH=_LONG)
        self._correction = over(_uppers, correction.correction, MOMENTUM=momentum, VARIES=varies)
        self._correct = over(_bands, correction.correct, MOMENTUM=momentum, DEPTH=_SHORT)

    @cached_property
    def _places(self) -> int:
        """How many programs of a kernel can wait for each other, since all of them run at the same time."""
        if self.device.type != "cuda":
            return 1  # Triton's interpreter runs one after the other
        properties = torch.cuda.get_device_properties(self.device)
        # a program takes at most half of a multiprocessor's registers, and 64 KiB of shared memory
        each = 2 if properties.shared_memory_per_multiprocessor >= 160 * 1024 else 1
        return each * int(properties.multi_processor_count)

    def _together(self, function: Any, tiles: int, **constants: Any) -> Launch:
        """A launch whose programs wait for each other."""
        return Launch(
            function,
            min(tiles, self._places),
            count=tiles,
            matrices=self.count,
            MATRICES=triton.next_power_of_2(self.count),
            BLOCK=_TILE,
            num_stages=2,
            **constants,
            **({"launch_cooperative_grid": True} if self.device.type == "cuda" else {}),
        )

    def _run(self, launches: Launches, *arguments: Tensor) -> None:
        for launch, tiles in launches:
            launch(self.table, tiles, *arguments)

    def _parts(self, count: int, size: int, *, fine: bool = False) -> list[Tensor]:
        return list(torch.empty(count, size, dtype=_FINE_PART if fine else _PART, device=self.device))

    def tangent(self, rates: Tensor) -> None:
        """Project the momenta. The rates are for a drift's B, which comes with S and is not used here."""
        bands = self._parts(4, self.band_size)
        K, *rest = torch.empty(4, self.square_size, device=self.device)
        S_high, S_low, *D = self._parts(4, self.square_size)
        self._run(self._split, bands[0], *bands)
        self._run(self._inner, *bands, K, K)
        self._run(self._halves, K, rates, *rest, S_high, S_low, *D)
        self._run(self._tangent, *bands[:2], S_high, S_low)

    def drift(self, rates: Tensor, ahead: Tensor | None = None) -> None:
        """Follow the momenta, once projected, and land on the manifold; or land from ``ahead``."""
        momentum = ahead is None
        if ahead is None:
            ahead = rates  # no kernel reads it
        bands, landed = self._parts(4, self.band_size), self._parts(2, self.band_size, fine=True)
        U, D, Z, M, spare = (self._parts(count, self.square_size) for count in (2, 2, 2, 4, 4))
        # M and spare hold the iteration's M and M/2 - B
        E_high, L = self._parts(2, self.square_size)
        C, *T = self._parts(3, self.square_size, fine=True)
        K, G, S, A, E, B, arrived, *factors = torch.empty(12, self.square_size, device=self.device)
        zeros = torch.zeros(_QUASI_NEWTON + _NEWTON_SCHULZ + 10, self.count, device=self.device)
        bound, last, T_unit, *extents = zeros[:5]
        arrivals, polar_arrivals = zeros[5:7].view(torch.int32)
        sizes, polar_sizes = zeros[7 : _QUASI_NEWTON + 9], zeros[_QUASI_NEWTON + 9 :]
        size, size_at = sizes[-1], list(sizes)
        size_at[0].fill_(float("inf"))  # two iterations before the first

        self._run(self._split, ahead, *bands)
        self._run(self._products, *bands, K, G)
        self._run(self._halves, K, rates, S, A, B, *U, *D)
        self._run(self._gram, G, S, B, *U, *D, rates, E, *M, size_at[1], bound)
        for k in range(self._apart):
            self._run(self._quasi_newton, E, B, *M, *spare, *size_at[k : k + 3])
            M, spare = spare, M
        self._run(self._to_the_end, E, B, *M, *spare, sizes[self._apart :], arrivals)
        for total in solves.totals("Orthogonal", self.device):
            self._count(sizes[1:], total)
        self._run(self._polar, E, bound, size, *factors, polar_sizes, polar_arrivals)
        self._run(self._choose, K, *M[:2], factors[1], bound, size, S, A, rates, arrived, *U, *Z, *D)
        if momentum:
            self._run(self._arrival, K, G, arrived, *U, *Z, *D, size, rates, S, L, *extents)
        self._run(self._land, ahead, *bands, *U, *Z, size, rates, *landed)
        self._run(self._examine, *landed, E, E_high, last)
        self._run(self._correction, E, E_high, last, C, S, L, *extents, size, rates, *T, T_unit)
        self._run(self._correct, *landed, C, *T, T_unit, last)


def _tile_rows(matrix: int, places: Places) -> list[TileRow]:
    """The tiles of a matrix, by its number."""
    return [TileRow(matrix=matrix, down=down, across=across) for down, across in places]


# ---- tilings: the shape of a matrix's tiles, and the place of each down and across ------------------


def _squares(matrix: Matrix) -> tuple[Shape, Places]:
    """Those of an s x s matrix."""
    across = range(matrix.padded[0] // _TILE)
    return (("BLOCK", _TILE),), [(i, j) for i in across for j in across]


def _uppers(matrix: Matrix) -> tuple[Shape, Places]:
    """Those on and above the diagonal."""
    shape, places = _squares(matrix)
    return shape, [(i, j) for i, j in places if i <= j]


def _products(matrix: Matrix) -> tuple[Shape, Places]:
    """All of an s x s matrix, and below it those of another on and above its diagonal."""
    shape, places = _squares(matrix)
    below = matrix.padded[0] // _TILE
    return shape, [*places, *((below + i, j) for i, j in places if i <= j)]


def _bands(matrix: Matrix) -> tuple[Shape, Places]:
    """Those of an s x r matrix."""
    high, long = matrix.padded
    places = [(i, k) for i in range(high // _TILE) for k in range(long // _WIDE)]
    return (("LAYOUT", matrix.layout), ("TALL", _TILE), ("WIDE", _WIDE)), places
