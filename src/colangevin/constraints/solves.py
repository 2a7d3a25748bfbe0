"""How multipliers were found: counted while somebody watches, and at no cost otherwise."""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Counts", "Solves", "begin", "end", "note", "watched"]


@dataclass
class Solves:
    """Counts of one kind of constraint; what was found on a device stays there until it is read."""

    #: calls that solve for all weights of a stack at once
    calls: int = 0
    #: weights that were solved for
    weights: int = 0
    #: summed over calls, of the slowest weight of each
    iterations: int | Tensor = 0
    #: weights for which the paper's iteration failed and another way was taken
    fallbacks: int | Tensor = 0


#: by the name of the constraint's class
Counts = dict[str, Solves]

_watching: list[Counts] = []


def begin(counts: Counts) -> None:
    """Add to these counts from now on."""
    if not any(each is counts for each in _watching):
        _watching.append(counts)


def end(counts: Counts) -> None:
    """Add to these counts no more."""
    _watching[:] = [each for each in _watching if each is not counts]


def watched() -> bool:
    """Whether somebody wants to know. A step that is being captured is not counted."""
    return bool(_watching) and not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def note(kind: str, weights: int, iterations: int | Tensor, fallbacks: int | Tensor) -> None:
    """Add what a call did to the counts of everybody who watches.

    Args:
        kind: name of the constraint's class.
        weights: how many were solved for.
        iterations: of the slowest.
        fallbacks: how many took another way.
    """
    for counts in _watching:
        solves = counts.setdefault(kind, Solves())
        solves.calls += 1
        solves.weights += weights
        solves.iterations = solves.iterations + iterations
        solves.fallbacks = solves.fallbacks + fallbacks
