"""Matrices of any size: each moves on the path that its size is worth."""

from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.step.fused.large_frames import LargeFrame, is_large
from colangevin.step.fused.matrices import Matrices
from colangevin.step.fused.tilings import Matrix
from colangevin.step.fused.uploads import Uploads

__all__ = ["FrameSet"]


class FrameSet:
    """Matrices with momenta on one device: large ones one by one, all others together.

    Args:
        matrices: what is to be moved.
        upload: brings a table to their device.
        varies: whether there is a row of rates for each matrix.
    """

    def __init__(self, matrices: Sequence[Matrix], upload: Uploads, *, varies: bool) -> None:
        self._varies = varies
        large = [number for number, matrix in enumerate(matrices) if is_large(matrix)]
        self._large = [(number, LargeFrame(matrices[number], upload)) for number in large]
        rest = [number for number in range(len(matrices)) if number not in large]
        self._rest = None
        if rest:
            chosen = [matrices[number] for number in rest]
            self._rest = Matrices(chosen, upload, overdamped=False, varies=varies)
        self._rows = upload(rest, torch.int64) if large and varies else None

    def tangent(self, rates: Tensor) -> None:
        """Project the momenta onto the cotangent spaces; see :class:`Matrices`."""
        for each, mine in self._with_rates(rates):
            each.tangent(mine)

    def drift(self, rates: Tensor) -> None:
        """Move along the projected momenta and land on the manifold; see :class:`Matrices`."""
        for each, mine in self._with_rates(rates):
            each.drift(mine)

    def _with_rates(self, rates: Tensor) -> list[tuple[LargeFrame | Matrices, Tensor]]:
        """Everything that moves, with its rows of the rates."""
        moves: list[tuple[LargeFrame | Matrices, Tensor]] = [
            (each, rates[number : number + 1] if self._varies else rates) for number, each in self._large
        ]
        if self._rest is not None:
            moves.append((self._rest, rates if self._rows is None else rates[self._rows]))
        return moves
