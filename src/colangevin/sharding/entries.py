"""Entries of sharded parameters: the part that a process holds, or a whole weight that it steps."""

from typing import Any

import torch
from torch import Tensor

from colangevin.errors import label
from colangevin.sharding.region import Region
from colangevin.step.entry import STATE, Entry

__all__ = ["PartEntry", "WholeEntry"]


class PartEntry(Entry):
    """The part of a parameter that this process holds, where parts move alone.

    Args:
        held: the part.
        region: which part it is.
        name: of the parameter.
        index: its number in the optimizer.
        word: of its noise.
        group_index: the number of its group.
        group: its group.
        dtype: of its state.
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
        dtype: torch.dtype,
    ) -> None:
        constraint = (
            group["constraint"].part(region.whole, region.slices) if region.numel else group["constraint"]
        )
        window = region.window() if region.cut else None
        own = {**group, "constraint": constraint}
        super().__init__(held, name, index, word, group_index, own, dtype=dtype, window=window)
        # options are read from the group as it is now
        self.group = group
        self._whole = region.whole

    @property
    def label(self) -> str:
        """Name and shape of the whole weight, for a message."""
        return label(self.name, self._whole)


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
        for key in STATE:
            if key in values:
                self.allocate(key).copy_(values[key])
