"""Muon of matrices with orthonormal rows or columns, all of one shape."""

import torch
from torch import Tensor

from colangevin.dynamics import newton_schulz
from colangevin.kernels.columns import RateRow
from colangevin.kernels.muon import average
from colangevin.step.fused.frame_set import FrameSet
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.memory import TYPES, address
from colangevin.step.fused.muon import Stacked
from colangevin.step.fused.orthogonalise import Orthogonaliser
from colangevin.step.fused.pattern import Pattern
from colangevin.step.fused.tilings import Matrix

__all__ = ["MuonFramesMover"]

_BLOCK = 1024  # entries that a program averages


class MuonFramesMover(Stacked):
    r"""Averages by the elementwise kernel, projections and the drift by those of orthogonality.

    Projections are linear: with :math:`m \leftarrow \beta m + (1 - \beta) G` as it is,
    :math:`\Pi(\beta m + (1 - \beta) G)` is what the averages of tangent gradients look ahead to.
    """

    def tabulate(self, pattern: Pattern) -> None:
        first, (count, rows, columns) = self.entries[0], self.matrix_shape
        table = self.rows(None)
        self.table = self.upload(table, torch.int64)
        size = first.size
        # Where they look ahead to, then where they move to. It stays, because a table names where it lies.
        self.ahead = torch.empty(count, rows, columns, device=self.device)
        moved = [
            Matrix(
                configuration=row.position or row.weight,
                momentum=address(self.ahead, number * size),
                rows=rows,
                columns=columns,
            )
            for number, row in enumerate(table)
        ]
        averages = [
            Matrix(each.configuration, row.momentum, rows, columns)
            for each, row in zip(moved, table, strict=True)
        ]
        self._moves, self._averages = (FrameSet(each, self.upload, varies=True) for each in (moved, averages))
        self._configurations = [entry.state.get("position", entry.parameter) for entry in self.entries]
        self._average = Launch(
            average,
            count * -(-size // _BLOCK),
            SPHERE=False,
            NESTEROV=self.muon.nesterov,
            STAY=False,
            CHUNKS=1,
            STORED="position" in first.state,
            MAXIMIZE=bool(first.group["maximize"]),
            weight_type=TYPES[first.parameter.dtype],
            momentum_type=TYPES[torch.float32],
            grad_type=TYPES[first.grad.dtype],
            slices=1,
            length=size,
            chunks=-(-size // _BLOCK),
            BLOCK=_BLOCK,
        )
        self._orthogonalised = Orthogonaliser(self.muon.orthogonalised, self.matrix_shape, self.upload)

    def launch(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        # of an orthogonality step's numbers it has the drift alone, which is lr
        drifts = torch.zeros(len(rates), len(RateRow._fields), device=self.device)
        drifts[:, RateRow._fields.index("drift")] = rates[:, 0]
        self._average(self.table, grads, rates, self.flags.table, self.ahead, self.flags.table)
        self._averages.tangent(drifts)
        self._moves.tangent(drifts)
        self.ahead.copy_(self._direction()).neg_()
        self._moves.drift(drifts)
        for _ in range(2):  # again: of a large normal part the rounding stays behind
            self._averages.tangent(drifts)

    def _direction(self) -> Tensor:
        """The steepest direction, as in :meth:`colangevin.constraints.frames.Frames.steepest`."""
        ahead, precision = self.ahead, newton_schulz.PRECISION
        _, rows, columns = ahead.shape
        if rows != columns:
            return self._orthogonalised(ahead.to(precision))
        q = torch.cat([each.reshape(-1, rows, columns) for each in self._configurations])
        S = torch.bmm(q.mT, ahead)
        turns = self._orthogonalised(((S - S.mT) * 0.5).to(precision))
        return torch.bmm(q, turns.to(q.dtype))
