"""Columns: what holds the rows of a weight, on its columns."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from colangevin.constraints.capabilities import Curvature, virial
from colangevin.constraints.manifold import Manifold
from colangevin.errors import ConstraintError

if TYPE_CHECKING:
    from colangevin.constraints.constraint import Constraint

__all__ = ["Columns", "Over", "checked_over", "lines"]

#: what a constraint holds: the slices along dimension 0 or along dimension 1, flattened
Over = Literal["rows", "columns"]


def checked_over(over: object) -> Over:
    """What a user gave as ``over``.

    Args:
        over: "rows" or "columns".

    Returns:
        The same.

    Raises:
        ConstraintError: for anything else.
    """
    if over == "rows":
        return "rows"
    if over == "columns":
        return "columns"
    raise ConstraintError(f"over={over!r}: must be 'rows' or 'columns'.")


def lines(shape: Sequence[int], over: Over) -> tuple[int, int]:
    """How many rows or columns a weight has, and how many entries each of them.

    Args:
        shape: of the weight.
        over: which of them.

    Returns:
        Two numbers.
    """
    rows, columns, kernel = _sides(shape)
    return (rows, columns * kernel) if over == "rows" else (columns, rows * kernel)


def _sides(shape: Sequence[int]) -> tuple[int, int, int]:
    """How many rows and columns a weight has, and how many entries they share. A vector has one column."""
    rows, columns, *rest = (*shape, *[1] * (2 - len(shape)))
    return rows, columns, math.prod(rest)


class Columns(Curvature):
    """A manifold of rows, asked about the transposed weight; configurations lie as the weight does.

    Args:
        constraint: what holds the columns.
        shape: of one weight.
        rows: the class of manifolds that hold rows.
    """

    def __init__(self, constraint: "Constraint", shape: tuple[int, ...], rows: type[Manifold]) -> None:
        super().__init__(constraint, shape)
        self._of_rows = rows(constraint, lines(shape, "columns"))
        self.hidden, self.bounded = self._of_rows.hidden, self._of_rows.bounded

    def _turned(self, stack: Tensor) -> Tensor:
        """A stack of weights or configurations with columns for rows."""
        rows, columns, kernel = _sides(self.shape)
        parts = stack.reshape(stack.shape[0], rows, columns, kernel).transpose(1, 2)
        return parts.reshape(stack.shape[0], columns, rows * kernel)

    def _back(self, stack: Tensor) -> Tensor:
        """The configurations that have these columns."""
        rows, columns, kernel = _sides(self.shape)
        parts = stack.reshape(stack.shape[0], columns, rows, kernel).transpose(1, 2)
        return parts.reshape(stack.shape[0], rows, columns * kernel)

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return lines(self.shape, "rows")

    @property
    def degrees_of_freedom(self) -> int:
        return self._of_rows.degrees_of_freedom

    # ---- the weight and its columns --------------------------------------------------------------

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        near = None if near is None else self._turned(near)
        return self._back(self._of_rows.lift(self._turned(weight), near))

    def read(self, weight: Tensor) -> Tensor:
        return self._back(self._of_rows.read(self._turned(weight)))

    def lower(self, q: Tensor) -> Tensor:
        return self._back(self._of_rows.lower(self._turned(q))).reshape(q.shape[0], *self.shape)

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return self._back(self._of_rows.covector(self._turned(q), self._turned(grad)))

    # ---- moves -----------------------------------------------------------------------------------

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        return self._back(self._of_rows.tangent(self._turned(q), self._turned(p)))

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        q, p = self._of_rows.drift(self._turned(q), self._turned(p), a)
        return self._back(q), self._back(p)

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        return self._back(self._of_rows.project(self._turned(q), self._turned(q_bar)))

    def virial(self, q: Tensor, force: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
        return virial(self._of_rows, *map(self._turned, (q, force, reference)))

    # ---- feasibility -----------------------------------------------------------------------------

    def infeasibility(self, weight: Tensor) -> Tensor:
        return self._of_rows.infeasibility(self._turned(weight))

    def start_tolerance(self, dtype: torch.dtype) -> float:
        return self._of_rows.start_tolerance(dtype)

    def explain(self, weight: Tensor) -> str:
        return self._of_rows.explain(self._turned(weight))

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        return self._back(self._of_rows.nearest(self._turned(weight), name)).reshape(weight.shape)

    def draw(self, weight: Tensor, name: str) -> Tensor:
        return self._back(self._of_rows.draw(self._turned(weight), name)).reshape(weight.shape)

    def at_rest(self, weight: Tensor) -> int:
        return self._of_rows.at_rest(self._turned(weight))

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        return self._of_rows.residual(self._turned(weight), self._turned(q))

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        return self._of_rows.cotangency(self._turned(q), self._turned(p))
