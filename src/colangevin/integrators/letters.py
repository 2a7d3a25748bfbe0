"""The letters A, B and O of the constrained underdamped dynamics (Eq. 13), as pure functions.

Each takes a feasible pair (q, p) and returns one; noise is an argument. A constraint takes one number for a
whole stack; where the copies have numbers of their own, gradient, noise and momentum take them up.
"""

import torch
from torch import Tensor

from colangevin.constraints.base import Constraint, plus
from colangevin.constraints.elementwise import Elementwise
from colangevin.integrators.rates import Scalar, factor, over_copies

__all__ = ["drift", "kick", "kick_drift", "ornstein_uhlenbeck", "ornstein_uhlenbeck_"]


def drift(constraint: Constraint, q: Tensor, p: Tensor, a: Scalar) -> tuple[Tensor, Tensor]:
    """A: move along the geodesic of p for time a, which is that of a p for time 1."""
    if not isinstance(a, Tensor):
        return constraint.drift(q, p, a)
    a = over_copies(a, p)
    q, ap = constraint.drift(q, a * p, 1.0)
    return q, torch.where(a < torch.finfo(p.dtype).tiny, p, ap / a)  # who does not move keeps p


def kick(constraint: Constraint, q: Tensor, p: Tensor, grad: Tensor, b: Scalar) -> Tensor:
    r"""B: :math:`p \leftarrow \Pi_q (p - b\,G)`."""
    b, grad = factor(b, grad)
    return constraint.kick(q, p, grad, b)


def kick_drift(
    constraint: Constraint, q: Tensor, p: Tensor, grad: Tensor, b: Scalar, a: Scalar
) -> tuple[Tensor, Tensor]:
    """B, then A."""
    if isinstance(a, Tensor):
        return drift(constraint, q, kick(constraint, q, p, grad, b), a)
    b, grad = factor(b, grad)
    return constraint.kick_drift(q, p, grad, b, a)


def ornstein_uhlenbeck(
    constraint: Constraint, q: Tensor, p: Tensor, decay: Scalar, scale: Scalar, noise: Tensor | None
) -> Tensor:
    r"""O: :math:`p \leftarrow \Pi_q (c\,p + d\,R)`; without noise a decay, which needs no projection."""
    decay, p = factor(decay, p)
    p = decay * p
    if noise is None:
        return p
    scale, noise = factor(scale, noise)
    return constraint.tangent(q, plus(p, constraint.white(q, noise), scale))


def ornstein_uhlenbeck_(
    constraint: Elementwise, p: Tensor, decay: float, scale: float, noise: Tensor | None
) -> None:
    """O in place, where a momentum needs no projection."""
    p.mul_(decay)
    if noise is not None:
        p.add_(noise, alpha=scale / constraint.smallest_length)  # of a uniform one, the only length
