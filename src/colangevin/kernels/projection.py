"""The launches of an orthogonality step: drift with its projection, and projection of momenta."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colangevin.kernels import orthogonal as kernel

__all__ = ["Matrices", "Matrix"]

_BLOCK = 64
_DEPTH = 32
# As Orthogonal: who has not come to 1e-4 by then takes the polar factor. A launch that finds nothing left to
# do costs a few microseconds. 20 iterations of Newton-Schulz are enough for steps up to h|P| = 300.
_QUASI_NEWTON = 24
_NEWTON_SCHULZ = 20
# TF32 where the last correction repairs it or only the momentum tilts, three times TF32 (which is as good as
# float32) for the error that decides and for the momentum's last projection.
_COARSE, _FINE = "tf32", "tf32x3"


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


class Matrices:
    """A table of matrices on one device, and the launches that move all of them.

    Args:
        matrices: what is to be moved.
        upload: brings a table to their device.
    """

    def __init__(
        self, matrices: Sequence[Matrix], upload: Callable[[Sequence[Any], torch.dtype], Tensor]
    ) -> None:
        self.count = len(matrices)
        #: where each matrix begins in the s x r workspaces; copies of one weight follow each other
        self.offsets: list[int] = []
        rows: list[list[int]] = []
        squares: list[list[int]] = []
        uppers: list[list[int]] = []
        by_layout: dict[str, list[list[list[int]]]] = {}
        band = square = 0
        for number, matrix in enumerate(matrices):
            s, r = sorted((matrix.rows, matrix.columns))
            length = -(-s // 16) * 16
            if matrix.layout == "aligned":
                band = -(-band // 16) * 16
            self.offsets.append(band)
            rows.append([matrix.configuration, matrix.momentum, band, square, s, r, length])
            high, long = range(-(-s // _BLOCK)), range(-(-r // _BLOCK))
            full = [[number, i, j] for i in high for j in high]
            upper = [tile for tile in full if tile[1] <= tile[2]]
            squares += full
            uppers += upper
            tiles = by_layout.setdefault(matrix.layout, [[], [], []])
            tiles[0] += [[number, i, k] for i in high for k in long]
            tiles[1] += full
            tiles[2] += upper
            band += s * r
            square += s * length
        self.band_size, self.square_size = band, square
        self.table = upload(rows, torch.int64)
        self.squares = upload(squares, torch.int32)
        self.uppers = upload(uppers, torch.int32)
        self.layouts = {
            layout: [upload(part, torch.int32) for part in tiles] for layout, tiles in by_layout.items()
        }
        self.device = self.table.device

    def tangent(self, rates: Tensor, ahead: Tensor | None = None) -> None:
        """Project the momenta, to the last digit unless a drift follows: then write X + a P to ``ahead``."""
        S = torch.zeros(self.square_size, device=self.device)
        out, precision = (S, _FINE) if ahead is None else (ahead, _COARSE)
        for layout, (_, squares, _) in self.layouts.items():
            kernel.inner[(len(squares),)](
                self.table, squares, out, S, RIGHT="P", LAYOUT=layout, PRECISION=precision, BLOCK=_BLOCK,
                DEPTH=_DEPTH,
            )  # fmt: skip
        kernel.symmetrise[(len(self.uppers),)](self.table, self.uppers, S, BLOCK=_BLOCK)
        for layout, (bands, _, _) in self.layouts.items():
            kernel.tangent[(len(bands),)](
                self.table, bands, out, S, rates, AHEAD=ahead is not None, LAYOUT=layout, PRECISION=precision,
                BLOCK=_BLOCK,
            )  # fmt: skip

    def land(self, ahead: Tensor, rates: Tensor, *, momentum: bool) -> None:
        """Put ``ahead``, the step without constraint, onto the manifold and into the configurations."""
        # zeros, because rows are read to the end of their padding
        error, slope, M, spare, three, four = torch.zeros(6, self.square_size, device=self.device)
        residuals = torch.zeros(_QUASI_NEWTON + 1, self.count, device=self.device)
        sums, last = torch.zeros(3, self.count, device=self.device)[:2]
        self._gram_error(ahead, error, M, residuals[0], sums, _COARSE)
        for layout, (_, squares, _) in self.layouts.items():
            kernel.inner[(len(squares),)](
                self.table, squares, ahead, slope, RIGHT="X_bar", LAYOUT=layout, PRECISION=_COARSE,
                BLOCK=_BLOCK, DEPTH=_DEPTH,
            )  # fmt: skip
        for k in range(_QUASI_NEWTON):
            kernel.quasi_newton[(len(self.uppers),)](
                self.table, self.uppers, error, slope, M, spare, residuals[k], residuals[k + 1],
                PRECISION=_COARSE, BLOCK=_BLOCK, num_stages=2,
            )  # fmt: skip
            M, spare = spare, M
        size = residuals[_QUASI_NEWTON]
        Z = self._polar(error, sums, size, (slope, spare, three, four))
        landed = torch.empty(self.band_size, device=self.device)
        for layout, (bands, _, _) in self.layouts.items():
            kernel.land[(len(bands),)](
                self.table, bands, ahead, landed, M, Z, sums, size, rates,
                MOMENTUM=momentum, LAYOUT=layout, PRECISION=_COARSE, BLOCK=_BLOCK,
            )  # fmt: skip
        self._gram_error(landed, error, spare, last, torch.empty_like(sums), _FINE)
        kernel.correction[(len(self.squares),)](
            self.table, self.squares, error, M, PRECISION=_COARSE, BLOCK=_BLOCK
        )
        for layout, (bands, _, _) in self.layouts.items():
            kernel.correct[(len(bands),)](
                self.table, bands, landed, M, last, MOMENTUM=momentum, LAYOUT=layout, PRECISION=_COARSE,
                BLOCK=_BLOCK,
            )  # fmt: skip

    def _gram_error(
        self, matrices: Tensor, error: Tensor, half: Tensor, size: Tensor, sums: Tensor, precision: str
    ) -> None:
        for layout, (_, _, uppers) in self.layouts.items():
            kernel.gram_error[(len(uppers),)](
                self.table, uppers, matrices, error, half, size, sums,
                LAYOUT=layout, PRECISION=precision, BLOCK=_BLOCK, DEPTH=_DEPTH,
            )  # fmt: skip

    def _polar(self, error: Tensor, sums: Tensor, size: Tensor, spare: Sequence[Tensor]) -> Tensor:
        """Newton-Schulz for the matrices on which quasi-Newton failed; the others' programs end at once."""
        Y, Z, Y_new, Z_new = spare
        T = torch.zeros_like(Y)
        grid = (len(self.squares),)
        sizes = torch.zeros(_NEWTON_SCHULZ + 1, self.count, device=self.device)
        kernel.polar_start[grid](self.table, self.squares, error, sums, size, Y, Z, sizes[0], BLOCK=_BLOCK)
        for k in range(_NEWTON_SCHULZ):
            kernel.polar_factor[grid](
                self.table, self.squares, Y, Z, T, sizes[k], sizes[k + 1], PRECISION=_FINE, BLOCK=_BLOCK
            )
            kernel.polar_step[grid](
                self.table, self.squares, Y, Z, T, Y_new, Z_new, sizes[k], PRECISION=_FINE, BLOCK=_BLOCK
            )
            Y, Y_new, Z, Z_new = Y_new, Y, Z_new, Z
        return Z
