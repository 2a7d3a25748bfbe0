r"""Multipliers of a general constraint: Newton, the orthogonal form, then a shorter step.

All for one configuration q (a flat vector) and one residual function :math:`g : R^d \to R^m`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from colangevin.constraints import solves
from colangevin.errors import ConvergenceError
from colangevin.surroundings import full_precision

__all__ = ["Residual", "cotangent", "jacobian", "land", "tolerance"]

Residual = Callable[[Tensor], Tensor]
#: a point of the manifold, the pull that led there, and the iterations it took
Landed = tuple[Tensor, Tensor, int]

_NEWTON_ITERATIONS = 20
_ORTHOGONAL_ITERATIONS = 60
_HALVINGS = 40
# a step shorter than this many roundings of q is none
_SHORTEST = 1024.0
# g is met when it is no larger than what this many roundings of q can make of it
_ROUNDINGS = 32.0


@full_precision
def jacobian(g: Residual, q: Tensor) -> Tensor:
    """J = dg/dq, shape (m, d), for a flat q."""
    J: Tensor = torch.func.jacrev(g)(q)
    return J.detach()


def tolerance(J: Tensor, q: Tensor) -> Tensor:
    """For each component of g the size that rounding of q alone accounts for."""
    eps = torch.finfo(q.dtype).eps
    return _ROUNDINGS * eps * J.abs().sum(1) * q.abs().max() + torch.finfo(q.dtype).tiny


def cotangent(J: Tensor, p: Tensor, what: str) -> Tensor:
    r"""Orthogonal projection onto the kernel of J, :math:`p - J^T (J J^T)^{-1} J p`.

    Args:
        J: the Jacobian at q, shape (m, d).
        p: a flat momentum.
        what: the constraint's words in an error.

    Returns:
        The projection.

    Raises:
        ConvergenceError: when J does not have full row rank.
    """
    factor, failed = torch.linalg.cholesky_ex(J @ J.mT)
    if int(failed) or _singular(factor):
        raise ConvergenceError(_rank_words(J, what))
    once = p - J.mT @ torch.cholesky_solve((J @ p).unsqueeze(1), factor).squeeze(1)
    # J J^T has the square of J's condition number; a second projection removes the error this leaves
    return once - J.mT @ torch.cholesky_solve((J @ once).unsqueeze(1), factor).squeeze(1)


def land(g: Residual, q: Tensor, q_bar: Tensor, what: str) -> tuple[Tensor, Tensor]:
    r"""The point of the manifold for a step from ``q`` that aims at ``q_bar``.

    First :math:`q' = \bar q - J(q)^T \lambda` (Eq. 40), by Newton on :math:`\lambda` with
    the matrix :math:`J(q') J(q)^T`; then :math:`q' = \bar q - J(q')^T \lambda` (Eq. 41); then
    both again for half the step, and so on.

    Args:
        g: the residual.
        q: where the step starts, on the manifold.
        q_bar: where it would end without the constraint.
        what: the constraint's words in an error.

    Returns:
        q', with g(q') = 0 up to rounding, and the pull q' - q_bar of the constraint. The pull comes from the
        multipliers, so that its rounding lies along the rows of J and a projection of momenta removes it.

    Raises:
        ConvergenceError: when J loses rank, or no shorter step lands on the manifold either.
    """
    J = jacobian(g, q)
    if _rank(J) < J.shape[0]:
        raise ConvergenceError(_rank_words(J, what))
    step = q_bar - q
    shortest = _SHORTEST * torch.finfo(q.dtype).eps * float(q.norm())
    for halving in range(_HALVINGS):
        aim = q + step * 0.5**halving
        if halving and float((aim - q).norm()) <= shortest:
            break  # a step of length 0 always lands, and would hide the failure
        oblique = _oblique(g, J, aim)
        landed = oblique or _orthogonal(g, aim, J.shape[0])
        if landed is not None:
            q_new, pull, rounds = landed
            if solves.current.get():
                solves.note("Implicit", q.device, 1, rounds, int(halving > 0 or oblique is None))
            return q_new, pull if halving == 0 else q_new - q_bar
    size = float(g(q_bar).abs().max())
    raise ConvergenceError(
        f"{what}: no point with g = 0 was found from a step of size {float(step.norm()):.3g} (largest "
        f"|g| there {size:.3g}, {q.dtype}, {halving} halvings). Check that g is smooth near the weights "
        "and that they satisfy it, or reduce lr."
    )


def _oblique(g: Residual, J: Tensor, q_bar: Tensor) -> Landed | None:
    """Newton along the rows of the Jacobian at the start, or None."""

    def multipliers(J_new: Tensor, value: Tensor, lam: Tensor, q: Tensor) -> Tensor:
        delta: Tensor = torch.linalg.solve_ex(J_new @ J.mT, value)[0]
        return lam + delta

    def direction(J_new: Tensor) -> Tensor:
        return J

    return _iterate(g, q_bar, multipliers, direction, _NEWTON_ITERATIONS, J.shape[0])


def _orthogonal(g: Residual, q_bar: Tensor, components: int) -> Landed | None:
    """Gauss-Newton for the nearest point, along the rows of the Jacobian at the end, or None."""

    def multipliers(J_new: Tensor, value: Tensor, lam: Tensor, q: Tensor) -> Tensor:
        # minimise |q' - q_bar| subject to the constraint linearised at q
        lam, _ = torch.linalg.solve_ex(J_new @ J_new.mT, value + J_new @ (q_bar - q))
        return lam

    def direction(J_new: Tensor) -> Tensor:
        return J_new

    return _iterate(g, q_bar, multipliers, direction, _ORTHOGONAL_ITERATIONS, components)


def _iterate(
    g: Residual,
    q_bar: Tensor,
    multipliers: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    direction: Callable[[Tensor], Tensor],
    iterations: int,
    components: int,
) -> Landed | None:
    """Set q = q_bar - direction^T lam until g is met, then once more: that step leaves only rounding."""
    lam = q_bar.new_zeros(components)
    q, pull = q_bar, torch.zeros_like(q_bar)
    best: tuple[float, Landed] | None = None
    for rounds in range(iterations):
        J_new, value = jacobian(g, q), g(q)
        excess = float((value.abs() / tolerance(J_new, q)).max())
        if best is not None and not excess < best[0]:
            break
        if excess <= 1:
            if best is not None or excess == 0:
                return q, pull, rounds
            best = excess, (q, pull, rounds)
        lam = multipliers(J_new, value, lam, q)
        if not bool(lam.isfinite().all()):
            break
        pull = -(direction(J_new).mT @ lam)
        q = q_bar + pull
    return None if best is None else best[1]


def _rank(J: Tensor) -> int:
    return int(torch.linalg.matrix_rank(J.double(), rtol=1e-7 if J.dtype == torch.float32 else 1e-12))


def _singular(factor: Tensor) -> bool:
    """Whether a Cholesky factor says that the matrix is singular to rounding."""
    diagonal = factor.diagonal().square()
    return bool(diagonal.min() <= diagonal.max() * torch.finfo(factor.dtype).eps * factor.shape[0])


def _rank_words(J: Tensor, what: str) -> str:
    m = J.shape[0]
    return (
        f"{what}: its Jacobian has rank {_rank(J)} for {m} components of g, so the multipliers are not "
        "determined. Drop redundant components (of a symmetric matrix keep one triangle), and keep away "
        "from points where the gradient of g vanishes."
    )
