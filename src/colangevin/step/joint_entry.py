"""Several parameters that one constraint holds together, as one entry of an optimizer."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.several import joined, joined_gradients, parted
from colangevin.errors import ConstraintError, label
from colangevin.step.entry import Entry

__all__ = ["JointEntry"]


class JointEntry(Entry):
    """Parameters whose entries lie one behind the other in q. The first has the state, and the noise is its.

    Args:
        members: names and parameters, in the order of the constraint's shapes.
        name: what to call them in a message.
        place: as in :class:`~colangevin.step.entry.Entry`.
        dtype: of the state.
    """

    def __init__(
        self, members: Sequence[tuple[str, Tensor]], name: str, *place: Any, dtype: torch.dtype
    ) -> None:
        self.names, self.members = zip(*members, strict=True)
        super().__init__(self.members[0], name, *place, dtype=dtype)

    @property
    def whole_shape(self) -> tuple[int, ...]:
        kept = int(bool(self.replicas))
        return (*self.parameter.shape[:kept], sum(math.prod(each.shape[kept:]) for each in self.members))

    @property
    def weight(self) -> Tensor:
        return joined(self.members, replicas=bool(self.replicas))

    @property
    def versions(self) -> tuple[tuple[int, int], ...]:
        return tuple((each._version, each.data_ptr()) for each in self.members)

    def take_gradient(self) -> None:
        """Take the gradients that the parameters have now.

        Raises:
            ConstraintError: for a parameter that was frozen while others have a gradient.
        """
        self.grad = joined_gradients(self.members, replicas=bool(self.replicas))
        if self.grad is None:
            return
        for name, each in zip(self.names, self.members, strict=True):
            if not each.requires_grad:
                raise ConstraintError(
                    f"{label(name, each.shape)}: was frozen (requires_grad=False), and {self.constraint!r} "
                    f"holds it together with others ({self.name}), so it would have to move. Unfreeze it, "
                    "freeze all of them, or build a new optimizer with a g for the others alone."
                )

    def write(self, q: Tensor, moments: Mapping[str, Tensor]) -> None:
        kept = int(bool(self.replicas))
        parts = parted(self.manifold.lower(q), [each.shape[kept:] for each in self.members])
        for member, part in zip(self.members, parts, strict=True):
            self.stack(member).copy_(part)
        self.keep(q, moments)
