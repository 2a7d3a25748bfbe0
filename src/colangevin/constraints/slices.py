"""Slices: the parts of a weight that have a norm each."""

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from colangevin.constraints.orientation import turned, turned_shape

__all__ = ["NOUNS", "Over", "Slices"]

Over = Literal["rows", "columns", "matrix"]
#: what one slice is called in a message, and several
NOUNS: dict[Over, tuple[str, str]] = {
    "rows": ("row", "rows"),
    "columns": ("column", "columns"),
    "matrix": ("matrix", "matrices"),
}


@dataclass(frozen=True)
class Slices:
    """How weights of one shape are cut into slices.

    Args:
        shape: of one weight.
        over: rows are the slices along dimension 0, columns those along dimension 1; a matrix is all of it.
        transposed: groups of a weight that is turned before it is cut.
    """

    shape: tuple[int, ...]
    over: Over
    transposed: int = 0

    @property
    def count(self) -> int:
        """How many slices a weight has."""
        if self.over == "matrix" or not self.shape:
            return 1
        return self._turned_shape[self.over == "columns"]

    @property
    def length(self) -> int:
        """How many entries a slice has."""
        numbers = self._turned_shape
        if self.over == "matrix":
            return math.prod(numbers)
        return math.prod((*numbers[:1], *numbers[2:]) if self.over == "columns" else numbers[1:])

    @property
    def in_order(self) -> bool:
        """Whether the entries of a contiguous weight lie slice after slice."""
        return self.over == "matrix" or (self.over == "rows" and not self.transposed)

    def of(self, stack: Tensor) -> Tensor:
        """A stack of weights as (copies, slices, entries of a slice)."""
        if not self.in_order:
            stack = turned(stack, self.transposed)
            stack = stack.transpose(1, 2) if self.over == "columns" else stack
            stack = stack.contiguous()  # a view in another order could not be written back to its weight
        return stack.reshape(stack.shape[0], self.count, self.length)

    def joined(self, slices: Tensor) -> Tensor:
        """The stack of weights that has these slices."""
        if self.in_order:
            return slices.reshape(slices.shape[0], *self.shape)
        numbers = self._turned_shape
        if self.over == "columns":
            first, second, *kernel = numbers
            stack = slices.reshape(slices.shape[0], second, first, *kernel).transpose(1, 2)
        else:
            stack = slices.reshape(slices.shape[0], *numbers)
        return turned(stack, self.transposed)

    @property
    def _turned_shape(self) -> tuple[int, ...]:
        return turned_shape(self.shape, self.transposed)
