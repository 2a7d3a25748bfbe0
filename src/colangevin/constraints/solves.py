"""How multipliers were found: counted in the steps of optimizers that are watched, at no cost otherwise."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

__all__ = ["Counts", "Solves", "counting", "current", "note", "totals", "watch", "watchers"]


class Solves(NamedTuple):
    """What was counted of one kind of constraint."""

    #: calls that solve for all weights of a stack at once
    calls: int = 0
    #: weights that were solved for
    weights: int = 0
    #: summed over calls, of the slowest weight of each
    iterations: int = 0
    #: weights for which the paper's iteration failed and another way was taken
    fallbacks: int = 0


class Counts:
    """What a watcher has counted so far; on a device it stays there until it is read.

    A step that is captured in a CUDA graph while it is watched counts in every replay.
    """

    def __init__(self) -> None:
        self._totals: dict[tuple[str, torch.device], Tensor] = {}

    def total(self, kind: str, device: torch.device) -> Tensor | None:
        """The numbers of :class:`Solves` so far, to be added to; None if a CUDA graph records the first."""
        if (kind, device) not in self._totals:
            if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
                return None  # the memory of a graph is not kept between replays
            self._totals[kind, device] = torch.zeros(len(Solves()), dtype=torch.int64, device=device)
        return self._totals[kind, device]

    def copy(self) -> "Counts":
        """What has been counted by now; does not wait for a device."""
        made = Counts()
        made._totals = {key: total.clone() for key, total in self._totals.items()}
        return made

    def of(self, kind: str) -> Solves:
        """What was counted of one class of constraints, given its name; waits for the devices."""
        found = [total.tolist() for (name, _), total in self._totals.items() if name == kind]
        return Solves(*map(sum, zip(*found, strict=True)))


#: what is counted of each optimizer's steps, as long as the optimizer lives: a captured graph adds to it
watchers: WeakKeyDictionary[object, tuple[Counts, ...]] = WeakKeyDictionary()
#: what the step that this thread is taking adds to
current: ContextVar[tuple[Counts, ...]] = ContextVar("counting", default=())


def watch(optimizer: object, counts: Counts) -> None:
    """Add to these counts in every step of an optimizer from now on.

    Args:
        optimizer: whose steps to count.
        counts: what to add to.
    """
    others = watchers.get(optimizer, ())
    if not any(each is counts for each in others):
        watchers[optimizer] = (*others, counts)


@contextmanager
def counting(optimizer: object) -> Iterator[None]:
    """Add what this thread solves meanwhile to the counts of an optimizer's watchers.

    Other optimizers and other threads add nothing.

    Args:
        optimizer: whose step is taken.

    Yields:
        Nothing.
    """
    before = current.set(watchers.get(optimizer, ()))
    try:
        yield
    finally:
        current.reset(before)


def totals(kind: str, device: torch.device) -> list[Tensor]:
    """The counts of this step's watchers on a device, for kernels to add to."""
    found = [counts.total(kind, device) for counts in current.get()]
    return [total for total in found if total is not None]


def note(
    kind: str, device: torch.device, weights: int, iterations: int | Tensor, fallbacks: int | Tensor
) -> None:
    """Add what a call did to the counts of this step's watchers.

    Args:
        kind: name of the constraint's class.
        device: where it was done.
        weights: how many were solved for.
        iterations: of the slowest.
        fallbacks: how many took another way.
    """
    for total in totals(kind, device):
        # a graph can record a fill, but not a number on its way from the host
        numbers = [
            number.long() if isinstance(number, Tensor) else torch.full((), number, device=device)
            for number in (1, weights, iterations, fallbacks)
        ]
        total.add_(torch.stack(numbers))
