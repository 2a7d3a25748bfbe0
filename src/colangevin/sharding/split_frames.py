"""Orthonormal matrices that are cut along their long side: what is sent are s x s matrices alone."""

import math

import torch
from torch import Tensor

from colangevin.constraints import Constraint
from colangevin.constraints.frames import Frames
from colangevin.constraints.polar import polar
from colangevin.constraints.products import gram, plus_identity
from colangevin.sharding.split import Split

__all__ = ["SplitFrames"]


class SplitFrames(Frames):
    r"""The part of a matrix with orthonormal rows or columns that a process holds.

    A process has some rows of Q, $r \times s$ with $r \ge s$. Products such as $Q^T P$ are sums over rows:
    each process adds its own, and all then do the same with the s x s result.

    Args:
        constraint: what holds the weight.
        shape: of the part.
        split: how the weight is cut.
    """

    def __init__(self, constraint: Constraint, shape: tuple[int, ...], split: Split) -> None:
        super().__init__(constraint, shape)
        self._split = split
        rows, *rest = split.layout.whole
        self._sides = rows, math.prod(rest)
        # of the whole: a part of a tall matrix may be wide
        self._wide = self._sides[0] < self._sides[1]

    @property
    def sides(self) -> tuple[int, ...]:
        return self._sides

    def inner(self, q: Tensor, p: Tensor) -> Tensor:
        return self._split.sum(q @ p.mT if self._wide else q.mT @ p)

    def along(self, q: Tensor, M: Tensor) -> Tensor:
        return M @ q if self._wide else q @ M

    def gram_error(self, q: Tensor) -> Tensor:
        return plus_identity(self._split.sum(gram(q, -2 if self._wide else -1)), -1)

    def sizes(self, *matrices: Tensor) -> list[Tensor]:
        parts = [torch.linalg.vector_norm(x, dim=(-2, -1), dtype=torch.float64) for x in matrices]
        return list(self._split.sum(torch.stack(parts).square()).sqrt())

    def polar(self, q_bar: Tensor) -> Tensor:
        # the polar factor of a transposed or reordered matrix is the transposed or reordered one
        if self._wide:
            return self._split.through_whole(q_bar, polar)
        return self._split.through_whole(q_bar.mT, polar).mT

    def multipliers(self, error: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
        M, converged = super().multipliers(error, B)
        lost = self.agreed(~converged)
        return M.masked_fill_(lost.view(-1, 1, 1), 0), ~lost

    def agreed(self, flags: Tensor) -> Tensor:
        return self._split.any(flags)

    def unchanged(self, weight: Tensor, q: Tensor) -> Tensor:
        return ~self.agreed(~super().unchanged(weight, q))
