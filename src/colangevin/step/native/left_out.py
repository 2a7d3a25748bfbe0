"""Matrices that the native library leaves out: it takes float64 to land steps as large as theirs."""

import math
from collections.abc import Sequence

import torch

from colangevin.dynamics import Dynamics, Langevin
from colangevin.step.entry import Entry
from colangevin.step.plain import moments_of, noise_of, stepped

__all__ = ["move_plainly"]


def move_plainly(entry: Entry, matrices: Sequence[int], dynamics: Dynamics, segment: int, step: int) -> None:
    """Move some matrices of a parameter in plain torch; the others have been moved.

    Args:
        entry: the parameter.
        matrices: the places of those to move, among the matrices of all copies.
        dynamics: of its group.
        segment: of the step.
        step: how many steps the parameter had taken before this one.
    """
    dynamics = dynamics.on_host
    assert isinstance(dynamics, Langevin)  # eligible.py lets no other through
    q = entry.configuration()
    moments = {key: entry.moment(key) for key in moments_of([entry], dynamics)}
    noise = noise_of([entry], [step], dynamics, segment, q)
    # all of them, since each copy may have numbers of its own; what comes out for the others is dropped
    q_new, moments_new = stepped(entry.manifold, dynamics, q, moments, entry.gradient(), noise, segment)
    moved = torch.zeros(math.prod(q.shape[:-2]), dtype=torch.bool, device=q.device)
    moved[list(matrices)] = True
    moved = moved.view(*q.shape[:-2], 1, 1)
    entry.write(
        torch.where(moved, q_new, q),
        {key: torch.where(moved, new, moments[key]) for key, new in moments_new.items()},
    )
