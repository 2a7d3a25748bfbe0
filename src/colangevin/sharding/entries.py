"""Entries of sharded parameters: the part that a process holds, or a whole weight that it steps."""

import math
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import Manifold
from colangevin.errors import InfeasibleError, label
from colangevin.sharding.region import Region
from colangevin.sharding.split import Split
from colangevin.step.entry import Entry

__all__ = ["PartEntry", "TogetherEntry", "WholeEntry"]


class PartEntry(Entry):
    """The part of a parameter that this process holds and steps.

    Args:
        held: the part.
        region: which part it is.
        name: of the parameter.
        index: its number in the optimizer.
        word: of its noise.
        group_index: the number of its group.
        group: its group.
        manifold: of the part; None where parts move alone.
    """

    sharded = True

    def __init__(
        self,
        held: Tensor,
        region: Region,
        name: str,
        index: int,
        word: int,
        group_index: int,
        group: dict[str, Any],
        manifold: Manifold | None = None,
    ) -> None:
        constraint = group["constraint"]
        if manifold is not None:
            constraint = manifold.constraint
        elif region.numel:
            constraint = constraint.part(region.whole, region.slices)
        window = region.window() if region.cut and region.numel else None
        place = name, index, word, group_index, {**group, "constraint": constraint}
        # a part without elements may have come in another shape
        super().__init__(held.view(region.shape), *place, window=window, manifold=manifold)
        # options are read from the group as it is now
        self.group = group
        self._whole = region.whole

    @property
    def label(self) -> str:
        """Name and shape of the whole weight, for a message."""
        return label(self.name, self._whole)


class TogetherEntry(PartEntry):
    """A part that moves together with the others. It has its turn in their sums even if it has no element.

    Args:
        held: the part.
        region: which part it is.
        name: of the parameter.
        index: its number in the optimizer.
        word: of its noise.
        group_index: the number of its group.
        group: its group.
        manifold: of the part.
        split: how the weight is cut.
    """

    def __init__(
        self,
        held: Tensor,
        region: Region,
        name: str,
        index: int,
        word: int,
        group_index: int,
        group: dict[str, Any],
        manifold: Manifold,
        split: Split,
    ) -> None:
        super().__init__(held, region, name, index, word, group_index, group, manifold)
        self.split = split
        self._moves = any(split.layout.region(place).numel for place in split.peers.coordinates)
        self._infeasible: InfeasibleError | None = None

    @property
    def moves(self) -> bool:
        return self._moves

    @property
    def size(self) -> int:
        return math.prod(self._whole)

    def examine(self) -> None:
        """Look at a weight of which somebody has written a part. Every peer has to call it.

        What is found :meth:`check` raises, when no rank is in the middle of sums over others.
        """
        self.stamp = None
        self._infeasible = None
        weight = self.stack(self.parameter).to(self.dtype)
        tolerance = self.manifold.start_tolerance(self.parameter.dtype)
        if not bool((self.manifold.infeasibility(weight) <= tolerance).all()):
            self._infeasible = InfeasibleError(f"{self.label}: {self.manifold.explain(weight)}")

    def check(self) -> None:
        if self._infeasible is not None:
            raise self._infeasible


class WholeEntry(Entry):
    """A whole weight that this process steps: its parts come from others and go back to them."""

    sharded = True

    def refill(self, values: dict[str, Tensor], *, edited: bool) -> None:
        """Take what was collected: the weight, its gradient and its state.

        Args:
            values: by name.
            edited: whether somebody wrote a part of the weight since the last step.
        """
        if not edited:
            with torch.autograd.grad_mode._unsafe_preserve_version_counter(self.parameter):
                self.parameter.copy_(values["weight"])
        else:
            self.parameter.copy_(values["weight"])
        self.grad = values["gradient"]
        for key in ("position", "momentum"):
            if key in values:
                self.allocate(key).copy_(values[key])
