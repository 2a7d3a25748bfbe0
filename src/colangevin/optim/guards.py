"""What is looked at before anything changes: gradients that are not finite, weights that cannot move."""

import math
import warnings
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from colangevin.constraints import Circle, Free
from colangevin.errors import NonFiniteError, label
from colangevin.integrators.rates import largest
from colangevin.optim.bucket import Bucket, Dynamics
from colangevin.optim.sweep import Sweep

__all__ = ["check_gradients", "warn_at_rest"]


def check_gradients(buckets: Sequence[Bucket | Sweep], dynamics: Mapping[int, Dynamics]) -> None:
    """Raise for NaN and Inf, and cut gradients so large that a square of theirs would overflow.

    Args:
        buckets: what is about to move.
        dynamics: of the groups they belong to, by position, as floats.

    Raises:
        NonFiniteError: naming the first such parameter.
    """
    entries = [(bucket, entry) for bucket in buckets for entry in bucket.entries]
    if not entries:
        return
    norms = _host_values(torch._foreach_norm([entry.grad for _, entry in entries]))
    # an overflowing norm is no proof of a bad entry, so only then are the entries themselves looked at
    suspects = [entry for (_, entry), norm in zip(entries, norms, strict=True) if not math.isfinite(norm)]
    bad = [entry for entry in suspects if not bool(entry.grad.isfinite().all())]
    if bad:
        others = f" ({len(bad) - 1} more parameters have one too)" if len(bad) > 1 else ""
        raise NonFiniteError(
            f"{bad[0].label}: its gradient holds NaN or Inf{others}. Weights and state are unchanged. "
            "Skip the batch, clip the gradient, or use torch.amp.GradScaler."
        )
    for (bucket, entry), norm in zip(entries, norms, strict=True):
        # the fourth root leaves room for Gram matrices of Gram matrices; a kick of that size has long
        # lost its meaning on a manifold of size 1, and free parameters follow SGD wherever it goes
        limit = torch.finfo(entry.dtype).max
        kick = max(largest(dynamics[bucket.position].kick), limit**-0.7)
        bound = limit**0.25 / kick * min(1.0, bucket.constraint.smallest_length)
        if norm > bound and not isinstance(bucket.constraint, Free):
            entry.grad = entry.grad.to(entry.dtype).clamp(-bound, bound)


def _host_values(scalars: Sequence[Tensor]) -> list[float]:
    """Scalars as floats, in one transfer for each device and dtype."""
    values = [0.0] * len(scalars)
    kinds = [(scalar.device, scalar.dtype) for scalar in scalars]
    for kind in set(kinds):
        places = [i for i, other in enumerate(kinds) if other == kind]
        for place, value in zip(places, torch.stack([scalars[i] for i in places]).tolist(), strict=True):
            values[place] = value
    return values


def warn_at_rest(constraint: Circle, parameter: Tensor, name: str) -> None:
    """Warn of weights exactly at their bound: there the gradient has no tangential part.

    Args:
        constraint: the circle that holds the parameter.
        parameter: the parameter.
        name: its name.
    """
    count = constraint.resting(parameter)
    if count:
        # stacklevel 1: raised by constrain() and by an optimizer it is one warning, shown once
        warnings.warn(
            f"{label(name, parameter.shape)}: {count} weights start exactly at the bound of {constraint!r}, "
            "where the gradient has no tangential part; without noise they will not move. Choose a larger "
            "radius or smaller weights, or set a temperature.",
            UserWarning,
            stacklevel=1,
        )
