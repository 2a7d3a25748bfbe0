"""Muon of matrices with orthonormal rows or columns."""

from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from colangevin.dynamics import newton_schulz
from colangevin.kernels.columns import MuonReals, RateRow
from colangevin.kernels.muon import average
from colangevin.step.entry import Entry
from colangevin.step.fused.frame_set import FrameSet
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.memory import TYPES, address
from colangevin.step.fused.muon import Stacked
from colangevin.step.fused.orthogonalise import Orthogonaliser
from colangevin.step.fused.pattern import Pattern
from colangevin.step.fused.tilings import Matrix

__all__ = ["MuonFramesMover"]

_BLOCK = 1024  # entries that a program averages


@dataclass(frozen=True)
class _Shape:
    """Matrices of one shape: where they are, what they look ahead to, and the launches for them."""

    configurations: list[Tensor]
    ahead: Tensor
    average: Launch
    orthogonalised: Orthogonaliser

    def turn(self) -> None:
        """Replace what they look ahead to by the direction that they move along, minus it."""
        self.ahead.copy_(self._direction()).neg_()

    def _direction(self) -> Tensor:
        """The steepest direction, as in :meth:`colangevin.constraints.frames.Frames.steepest`."""
        precision = newton_schulz.PRECISION
        ahead = self.ahead.to(precision)
        _, rows, columns = ahead.shape
        if rows != columns:
            return self.orthogonalised(ahead)
        q = torch.cat([each.reshape(-1, rows, columns).to(precision) for each in self.configurations])
        S = torch.bmm(q.mT, ahead)
        return torch.bmm(q, self.orthogonalised((S - S.mT) * 0.5))


class MuonFramesMover(Stacked):
    r"""Averages by the elementwise kernel, projections and the drift by those of orthogonality.

    Projections are linear: with :math:`m \leftarrow \beta m + (1 - \beta) G` as it is,
    :math:`\Pi(\beta m + (1 - \beta) G)` is what the averages of tangent gradients look ahead to.
    """

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__(sorted(entries, key=_matrix_shape))

    def tabulate(self, pattern: Pattern) -> None:
        table = self.rows(None)
        self.table = self.upload(table, torch.int64)
        self._shapes: list[_Shape] = []
        averages: list[Matrix] = []
        moves: list[Matrix] = []
        for (rows, columns), entries in groupby(self.entries, _matrix_shape):
            shape = self._shape(list(entries), rows, columns, first=len(moves))
            self._shapes.append(shape)
            for number in range(len(shape.ahead)):
                row = table[len(moves)]
                place = row.position or row.weight
                averages.append(Matrix(place, row.momentum, rows, columns))
                moves.append(Matrix(place, address(shape.ahead, number * rows * columns), rows, columns))
        self._averages, self._moves, self._both = (
            FrameSet(each, self.upload, varies=True) for each in (averages, moves, averages + moves)
        )

    def _shape(self, entries: list[Entry], rows: int, columns: int, first: int) -> _Shape:
        """The launches for the matrices of one shape, of which the first has some row of the table."""
        count, one = sum(entry.copies for entry in entries), entries[0]
        size = rows * columns
        chunks = -(-size // _BLOCK)
        launch = Launch(
            average,
            count * chunks,
            SPHERE=False,
            NESTEROV=self.muon.nesterov,
            STAY=False,
            CHUNKS=1,
            STORED="position" in one.state,
            MAXIMIZE=bool(one.group["maximize"]),
            weight_type=TYPES[one.parameter.dtype],
            momentum_type=TYPES[torch.float32],
            grad_type=TYPES[one.grad.dtype],
            first=first,
            slices=1,
            length=size,
            chunks=chunks,
            BLOCK=_BLOCK,
        )
        return _Shape(
            [entry.state.get("position", entry.parameter) for entry in entries],
            # it stays, because a table names where it lies
            torch.empty(count, rows, columns, device=self.device),
            launch,
            Orthogonaliser(self.muon.orthogonalised, (count, rows, columns), self.upload),
        )

    def launch(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        # of an orthogonality step's numbers it has the drift alone, which is lr
        drifts = torch.zeros(len(rates), len(RateRow._fields), device=self.device)
        drifts[:, RateRow._fields.index("drift")] = rates[:, MuonReals._fields.index("lr")]
        for shape in self._shapes:
            shape.average(self.table, grads, rates, self.flags.table, shape.ahead, self.flags.table)
        self._both.tangent(drifts.repeat(2, 1))
        for shape in self._shapes:
            shape.turn()
        self._moves.drift(drifts)
        for _ in range(2):  # again: of a large normal part the rounding stays behind
            self._averages.tangent(drifts)


def _matrix_shape(entry: Entry) -> tuple[int, int]:
    return entry.manifold.matrix_shape
