"""Mover: the protocol of every path that moves parameters."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from colangevin.dynamics import Dynamics
from colangevin.step.entry import Entry

__all__ = ["Mover"]


class Mover(ABC):
    """Parameters that move together, on one path.

    A segment of a step calls each method on all movers before it calls the next one on any. What can fail
    comes first, so that a failure changes nothing.

    Args:
        entries: the parameters.
    """

    #: whether bad gradients are found by the step itself, on the device, rather than before it on the host
    watches: ClassVar[bool] = False

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries

    def check(self) -> None:
        """Raise what earlier steps have left to be said; called where the step itself watches gradients."""
        return

    def doubtful(self, dynamics: Sequence[Dynamics], segment: int) -> list[Entry]:
        """The entries whose gradients the host has to look at: they may hold NaN or Inf, or be too large.

        Args:
            dynamics: of every group of the optimizer.
            segment: of the step.

        Returns:
            The entries; none where the step itself watches gradients.
        """
        return []

    @abstractmethod
    def edited(self) -> list[Entry]:
        """The entries whose parameter was written by others since the last step, as far as one can tell."""

    @abstractmethod
    def prepare(self, dynamics: Sequence[Dynamics], segment: int) -> None:
        """Make the state that a step needs, and everything that may raise; no weight and no momentum changes.

        Args:
            dynamics: of every group of the optimizer.
            segment: of the step.
        """

    @abstractmethod
    def advance(self) -> None:
        """Move every parameter through the segment."""

    @abstractmethod
    def finish(self) -> None:
        """Complete what :meth:`advance` began: step counts, and what tells a later edit."""
