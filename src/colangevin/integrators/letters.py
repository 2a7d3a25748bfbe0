"""The letters A, B and O of the constrained underdamped dynamics (Eq. 13), as pure functions.

Each takes a feasible pair (q, p) and returns one; noise is an argument.
"""

from torch import Tensor

from colangevin.constraints.base import Constraint, plus

__all__ = ["drift", "kick", "ornstein_uhlenbeck"]


def drift(constraint: Constraint, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
    """A: move along the geodesic of p for time a."""
    return constraint.drift(q, p, a)


def kick(constraint: Constraint, q: Tensor, p: Tensor, grad: Tensor, b: float) -> Tensor:
    r"""B: :math:`p \leftarrow \Pi_q (p - b\,G)`."""
    return constraint.kick(q, p, grad, b)


def ornstein_uhlenbeck(
    constraint: Constraint, q: Tensor, p: Tensor, decay: float, scale: float, noise: Tensor | None
) -> Tensor:
    r"""O: :math:`p \leftarrow \Pi_q (c\,p + d\,R)`; without noise a decay, which needs no projection."""
    p = decay * p
    if noise is None:
        return p
    return constraint.tangent(q, plus(p, constraint.white(q, noise), scale))
