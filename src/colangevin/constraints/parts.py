"""The parts of a weight that a constraint holds one by one: the whole weight, rows, columns or entries."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

__all__ = ["OVER", "Over", "Parts"]

Over = Literal["weight", "rows", "columns", "entries"]
OVER: tuple[Over, ...] = get_args(Over)


@dataclass(frozen=True)
class Parts:
    """How weights of one shape are cut.

    A row is a slice along dimension 0 and a column one along dimension 1, both flattened; an entry has no
    dimension.

    Args:
        over: what a part is.
        shape: of one weight.
    """

    over: Over
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many parts a weight has."""
        if self.over == "weight":
            return 1
        if self.over == "entries":
            return math.prod(self.shape)
        return self.shape[self.over == "columns"] if self.shape else 1

    @property
    def shape_of_one(self) -> tuple[int, ...]:
        """The shape of a part, as a function of it sees it."""
        if self.over == "weight":
            return self.shape
        return () if self.over == "entries" else (self.size,)

    @property
    def size(self) -> int:
        """How many entries a part has."""
        if self.over == "weight":
            return math.prod(self.shape)
        if self.over == "entries":
            return 1
        along = int(self.over == "columns")
        return math.prod(n for dim, n in enumerate(self.shape) if dim != along)

    def split(self, weight: Tensor) -> Tensor:
        """The parts of a stack of weights one below the other, shape (copies * count, size)."""
        if self.over == "columns":
            weight = weight.movedim(2, 1)
        return weight.reshape(-1, self.size)

    def join(self, parts: Tensor) -> Tensor:
        """The stack of weights that has these parts."""
        if self.over != "columns":
            return parts.reshape(-1, *self.shape)
        rows, columns, *rest = self.shape
        return parts.reshape(-1, columns, rows, *rest).movedim(1, 2)

    def name(self, number: int) -> str:
        """A part in words, given its number among those of one weight: w, row 3, entry (0, 2)."""
        if self.over == "weight":
            return "w"
        if self.over != "entries":
            return f"{self.over[:-1]} {number}"
        place = []
        for n in reversed(self.shape):
            number, index = divmod(number, n)
            place.append(index)
        return f"entry {tuple(reversed(place))}"
