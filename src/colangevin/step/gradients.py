"""What is looked at on the host before a step: gradients that are not finite, or too large to square."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.dynamics import Dynamics
from colangevin.errors import NonFiniteError
from colangevin.step.entry import Entry

__all__ = ["check_gradients", "largest_norm"]


def check_gradients(entries: Sequence[Entry], dynamics: Sequence[Dynamics]) -> None:
    """Raise for NaN and Inf, and cut gradients so large that a square of theirs would overflow.

    Args:
        entries: what is about to move, at least one.
        dynamics: of every group of the optimizer.

    Raises:
        NonFiniteError: naming the first such parameter.
    """
    norms = _host_values(torch._foreach_norm([entry.grad for entry in entries]))
    # an overflowing norm is no proof of a bad entry, so only then are the entries themselves looked at
    suspects = [entry for entry, norm in zip(entries, norms, strict=True) if not math.isfinite(norm)]
    bad = [entry for entry in suspects if not bool(entry.grad.isfinite().all())]
    if bad:
        others = f" ({len(bad) - 1} more parameters have one too)" if len(bad) > 1 else ""
        raise NonFiniteError(
            f"{bad[0].label}: its gradient holds NaN or Inf{others}. Weights and state are unchanged. "
            "Skip the batch, clip the gradient, or use torch.amp.GradScaler."
        )
    for entry, norm in zip(entries, norms, strict=True):
        bound = largest_norm(entry, dynamics[entry.group_index])
        if bound < norm and not entry.manifold.free:
            entry.grad = entry.grad.to(entry.dtype).clamp(-bound, bound)


def largest_norm(entry: Entry, dynamics: Dynamics) -> float:
    """The norm up to which a gradient is taken as it is, if it is finite.

    Args:
        entry: a parameter.
        dynamics: of its group.

    Returns:
        The bound. Free parameters follow SGD wherever it goes.
    """
    limit = torch.finfo(entry.dtype).max
    if entry.manifold.free:
        return limit
    # The fourth root leaves room for Gram matrices of Gram matrices. A kick of that size has long lost its
    # meaning on a manifold of size 1.
    kick = max(dynamics.on_host.largest_kick, limit**-0.7)
    return float(limit**0.25 / kick * min(1.0, entry.smallest_length))


def _host_values(scalars: Sequence[Tensor]) -> list[float]:
    """Scalars as floats, in one transfer for each device and dtype."""
    values = [0.0] * len(scalars)
    kinds = [(scalar.device, scalar.dtype) for scalar in scalars]
    for kind in set(kinds):
        places = [i for i, other in enumerate(kinds) if other == kind]
        for place, value in zip(places, torch.stack([scalars[i] for i in places]).tolist(), strict=True):
            values[place] = value
    return values
