"""The launches of an orthogonality step: momenta made cotangent, and drifts with their projection."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import solves
from colangevin.kernels import orthogonal as kernel
from colangevin.kernels.launch import Launch

__all__ = ["Matrices", "Matrix"]

_TILE = 64  # rows of a tile, and columns of one of an s x s matrix
_WIDE = 128  # columns of one of an s x r matrix
_PART = torch.bfloat16  # two of which make up a float32 number
# how much of a sum over r and of one over s is loaded at a time
_LONG, _SHORT = 64, 32
# As Orthogonal: who has not come to 1e-4 by then takes the polar factor. A launch that finds nothing left to
# do costs a few microseconds. 24 iterations of Newton-Schulz are enough for steps up to h|P| = 300.
_QUASI_NEWTON = 24
_NEWTON_SCHULZ = 24


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
        rows: list[list[int]] = []
        squares: list[list[int]] = []
        uppers: list[list[int]] = []
        bands: dict[str, list[list[int]]] = {}
        band = square = copied = 0
        for number, matrix in enumerate(matrices):
            s, r = sorted((matrix.rows, matrix.columns))
            high, long = matrix.padded
            if matrix.layout == "aligned":  # of several copies in a row only the first can need it
                copied = -(-copied // 16) * 16
            self.offsets.append(copied)
            rows.append([matrix.configuration, matrix.momentum, band, square, copied, s, r, high, long])
            tiles = _tiles(number, high, high, _TILE)
            squares += tiles
            uppers += [tile for tile in tiles if tile[1] <= tile[2]]
            bands.setdefault(matrix.layout, []).extend(_tiles(number, high, long, _WIDE))
            band += high * long
            square += high * high
            copied += s * r
        self.band_size, self.square_size, self.copy_size = band, square, copied
        self.table = upload(rows, torch.int64)
        self.device = self.table.device
        self._squares = upload(squares, torch.int32)
        self._uppers = upload(uppers, torch.int32)
        self._bands = {layout: upload(tiles, torch.int32) for layout, tiles in bands.items()}
        self._compose(overdamped, varies)

    def _compose(self, overdamped: bool, varies: bool) -> None:
        """Every launch, with what does not change from step to step."""

        def over_uppers(function: Any, **constants: Any) -> Launch:
            return Launch(function, len(self._uppers), **constants, BLOCK=_TILE)

        def over_squares(function: Any, **constants: Any) -> Launch:
            return Launch(function, len(self._squares), **constants, BLOCK=_TILE, num_stages=2)

        def over_bands(function: Any, **constants: Any) -> list[tuple[Launch, Tensor]]:
            constants.update(TALL=_TILE, WIDE=_WIDE)
            return [
                (Launch(function, len(tiles), LAYOUT=layout, **constants), tiles)
                for layout, tiles in self._bands.items()
            ]

        momentum = not overdamped
        self._split = over_bands(kernel.split, OVERDAMPED=overdamped)
        self._inner = over_uppers(kernel.inner, DEPTH=_LONG)
        self._tangent = over_bands(kernel.tangent, DEPTH=_SHORT)
        self._gram = over_uppers(kernel.gram, OVERDAMPED=overdamped, VARIES=varies, DEPTH=_LONG, SHORT=_SHORT)
        self._quasi_newton = over_uppers(kernel.quasi_newton, num_stages=2)
        self._polar_start = over_squares(kernel.polar_start)
        self._polar_factor = over_squares(kernel.polar_factor)
        self._polar_step = over_squares(kernel.polar_step)
        self._choose = over_squares(kernel.choose, OVERDAMPED=overdamped, VARIES=varies)
        self._land = over_bands(kernel.land, OVERDAMPED=overdamped, VARIES=varies, DEPTH=_SHORT)
        self._examine = over_uppers(kernel.examine, DEPTH=_SHORT)
        self._normal_part = over_uppers(kernel.normal_part, DEPTH=_LONG)
        self._correction = over_squares(kernel.correction, MOMENTUM=momentum)
        self._correct = over_bands(kernel.correct, MOMENTUM=momentum, DEPTH=_SHORT)

    def _run(self, launches: list[tuple[Launch, Tensor]], *arguments: Tensor) -> None:
        for launch, tiles in launches:
            launch(self.table, tiles, *arguments)

    def _parts(self, count: int, size: int) -> list[Tensor]:
        return list(torch.empty(count, size, dtype=_PART, device=self.device))

    def tangent(self) -> None:
        """Project the momenta."""
        bands = self._parts(4, self.band_size)
        S, A = torch.empty(2, self.square_size, device=self.device)
        S_high, S_low = self._parts(2, self.square_size)
        self._run(self._split, bands[0], *bands)
        self._inner(self.table, self._uppers, *bands, S, A, S_high, S_low)
        self._run(self._tangent, *bands[:2], S_high, S_low)

    def drift(self, rates: Tensor, ahead: Tensor | None = None) -> None:
        """Follow the momenta, once projected, and land on the manifold; or land from ``ahead``."""
        momentum = ahead is None
        if ahead is None:
            ahead = rates  # no kernel reads it
        X_high, X_low, P_high, P_low, *landed_parts = self._parts(8 if momentum else 6, self.band_size)
        bands = (X_high, X_low, P_high, P_low)
        if not momentum:
            landed_parts += landed_parts
        U_high, U_low, C_high, C_low, Z_high, Z_low = self._parts(6, self.square_size)
        S, A, E, B, M, spare, *polar = torch.empty(11, self.square_size, device=self.device)
        zeros = torch.zeros(_QUASI_NEWTON + _NEWTON_SCHULZ + 4, self.count, device=self.device)
        bound, last, *sizes = zeros
        earlier = torch.full_like(bound, float("inf"))

        self._run(self._split, ahead, *bands)
        self._inner(self.table, self._uppers, *bands, S, A, U_high, U_low)
        self._gram(self.table, self._uppers, P_high, P_low, S, A, rates, E, B, M, sizes[0], bound)
        for k in range(_QUASI_NEWTON):
            self._quasi_newton(self.table, self._uppers, E, B, M, spare, earlier, sizes[k], sizes[k + 1])
            M, spare, earlier = spare, M, sizes[k]
        size = sizes[_QUASI_NEWTON]
        if solves.watched():
            self._note(torch.stack(sizes[: _QUASI_NEWTON + 1]))
        Z = self._polar(E, bound, size, sizes[_QUASI_NEWTON + 1 :], polar)
        chosen = (U_high, U_low, Z_high, Z_low)
        self._choose(self.table, self._squares, M, Z, bound, size, S, A, rates, spare, *chosen)
        landed = torch.empty(self.band_size, device=self.device)
        self._run(self._land, ahead, *bands, *chosen, size, rates, landed, *landed_parts)
        self._examine(self.table, self._uppers, landed, E, last)
        if momentum:
            self._normal_part(self.table, self._uppers, *landed_parts, S)
        self._correction(self.table, self._squares, E, S, spare, C_high, C_low, U_high, U_low)
        self._run(self._correct, landed, *landed_parts[:2], C_high, C_low, U_high, U_low, last)

    def _note(self, sizes: Tensor) -> None:
        """Count quasi-Newton's iterations by the residuals before each, without waiting for the device."""
        open_before = (sizes[:-1] > kernel.ENOUGH) & sizes[:-1].isfinite()
        slowest = open_before.sum(0).amax()
        failed = ~(sizes[-1, : self.matrices] <= kernel.ENOUGH)
        solves.note("Orthogonal", self.device, self.matrices, slowest, failed.sum())

    def _polar(
        self, E: Tensor, bound: Tensor, size: Tensor, sizes: Sequence[Tensor], spare: Sequence[Tensor]
    ) -> Tensor:
        """Newton-Schulz for the matrices on which quasi-Newton failed; the others' programs end at once."""
        Y, Z, Y_new, Z_new, T = spare
        tiles = self._squares
        self._polar_start(self.table, tiles, E, bound, size, Y, Z, sizes[0])
        for k in range(_NEWTON_SCHULZ):
            self._polar_factor(self.table, tiles, Y, Z, T, sizes[k], sizes[k + 1])
            self._polar_step(self.table, tiles, Y, Z, T, Y_new, Z_new, sizes[k])
            Y, Y_new, Z, Z_new = Y_new, Y, Z_new, Z
        return Z


def _tiles(number: int, rows: int, columns: int, wide: int) -> list[list[int]]:
    """Every tile of a matrix: its number, and the tile's place down and across."""
    return [[number, i, j] for i in range(rows // _TILE) for j in range(columns // wide)]
