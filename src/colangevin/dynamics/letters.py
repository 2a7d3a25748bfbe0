"""The letters A, B and O of the constrained underdamped dynamics (Eq. 13), as pure functions.

Each takes a feasible pair (q, p) and returns one; noise is an argument. A manifold takes one number for a
whole stack. Where each copy has a number of its own, the gradient, the noise or the momentum is multiplied by
it first.
"""

import torch
from torch import Tensor

from colangevin.constraints.manifold import Manifold
from colangevin.constraints.stacks import plus
from colangevin.dynamics.rates import Scalar, factor, over_copies

__all__ = ["drift", "kick", "kick_drift", "ornstein_uhlenbeck"]


def drift(manifold: Manifold, q: Tensor, p: Tensor, a: Scalar) -> tuple[Tensor, Tensor]:
    """A: move along the geodesic of p for time a, which is that of a p for time 1."""
    if not isinstance(a, Tensor):
        return manifold.drift(q, p, a)
    a = over_copies(a, p)
    q, ap = manifold.drift(q, a * p, 1.0)
    return q, torch.where(a < torch.finfo(p.dtype).tiny, p, ap / a)  # a = 0: a p / a is undefined, so keep p


def kick(manifold: Manifold, q: Tensor, p: Tensor, grad: Tensor, b: Scalar) -> Tensor:
    r"""B: :math:`p \leftarrow \Pi_q (p - b\,G)`."""
    b, grad = factor(b, grad)
    return manifold.tangent(q, plus(p, manifold.covector(q, grad), -b))


def kick_drift(
    manifold: Manifold, q: Tensor, p: Tensor, grad: Tensor, b: Scalar, a: Scalar
) -> tuple[Tensor, Tensor]:
    """B, then A."""
    if isinstance(a, Tensor):
        return drift(manifold, q, kick(manifold, q, p, grad, b), a)
    b, grad = factor(b, grad)
    return manifold.kick_drift(q, p, grad, b, a)


def ornstein_uhlenbeck(
    manifold: Manifold, q: Tensor, p: Tensor, decay: Scalar, scale: Scalar, noise: Tensor | None
) -> Tensor:
    r"""O: :math:`p \leftarrow \Pi_q (c\,p + d\,R)`; without noise a decay, which needs no projection."""
    decay, p = factor(decay, p)
    p = decay * p
    if noise is None:
        return p
    scale, noise = factor(scale, noise)
    return manifold.tangent(q, plus(p, manifold.white(q, noise), scale))
