r"""Orthogonality: :math:`W^T W = I` or :math:`W W^T = I`, whichever the shape allows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import solves
from colangevin.constraints.base import Constraint, ratio
from colangevin.constraints.polar import polar
from colangevin.constraints.products import (
    along,
    gram_error,
    inner,
    largest,
    norm,
    plus_identity,
    symmetric,
    wide,
)
from colangevin.errors import ConstraintError, label

__all__ = ["Orthogonal"]

# The quasi-Newton iteration contracts by about sigma = h |P|_2 at worst and by 1 - sqrt(1 - sigma^2) at best.
# Who is not below _NEARLY after _TRIALS iterations (sigma above 0.7 or so), or until then does not reduce the
# residual by _PROGRESS each time, takes the polar projection, which is then both cheaper and safer; who is
# goes on to rounding.
_TRIALS, _NEARLY, _PROGRESS = 24, 1e-4, 0.9
_ITERATIONS = 80
# Largest |Q^T Q - I| left by the iteration, in units of the dtype's rounding: the recursion's own floor is
# about 2 units at s = 16 and 6 at s = 2048.
_TOLERANCE = 8.0
# A momentum this many times shorter than what its projection removed is projected again: the removed part
# leaves its rounding behind, which need not be small beside the momentum.
_SWAMPED = 2.0
# Largest normal part of a step that the drift takes up in its own products, where it costs (1 + |Z|)^2 of the
# precision; a larger one is projected away first.
_NORMAL = 0.5
# Multipliers M up to which an error E of Q itself comes out halved, (2 |M| + |M|^2) |E| <= |E|/2, so that it
# cannot grow from step to step. With larger ones the result is looked at.
_SAFE = 0.22
# Largest |Q^T Q - I| of a result that was looked at, in units of the dtype's rounding; a polar factor has 3
# units at 32 x 32 and 17 at 1024 x 1024.
_RESULT = 32.0


@dataclass(frozen=True)
class Orthogonal(Constraint):
    r"""Orthonormal rows or columns (Eq. 4).

    A weight of rank 2 or more is flattened to (n_out, rest), which is its configuration; in the formulas Q,
    :math:`r \times s` with :math:`r \ge s`, is that matrix, or its transpose when it is wide (as almost every
    convolution kernel is). With :math:`\Pi_Q P = P - \frac12 Q (P^T Q + Q^T P)`, letter A
    is RATTLE,

    .. math::
        \bar Q = Q + hP, \quad Q' = \mathrm{project}(\bar Q), \quad
        \bar P = P + \tfrac1h (Q' - \bar Q), \quad P' = \Pi_{Q'} \bar P.

    The projection is the paper's quasi-Newton iteration :math:`Q^{(k+1)} = Q^{(k)} - \frac12 Q (Q^{(k)T}
    Q^{(k)} - I)` wherever it converges, and the polar factor :math:`\bar Q (\bar Q^T \bar Q)^{-1/2}`
    wherever it does not, so that no step leaves the manifold (Eqs. 54 and
    41).

    Leimkuhler et al. 2021, Algorithms 1 and 2 and appendix "Orthogonality constraint".
    """

    stacks = True

    def describe(self) -> dict[str, Any]:
        return {"name": "Orthogonal"}

    def check_shape(self, shape: Sequence[int], name: str = "weight", copies: int = 1) -> None:
        if len(shape) < 2:
            raise ConstraintError(
                f"{label(name, shape)}: Orthogonal needs a weight with at least 2 dimensions, this one "
                f"has {len(shape)}. Leave it free, or use Circle or Sphere."
            )

    def configuration_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return shape[0], math.prod(shape[1:])

    def degrees_of_freedom(self, shape: Sequence[int]) -> int:
        s = min(self.configuration_shape(shape))
        return math.prod(shape) - s * (s + 1) // 2

    def infeasibility(self, weight: Tensor) -> Tensor:
        return largest(gram_error(weight.flatten(2)))

    def explain(self, weight: Tensor) -> str:
        rows, columns = weight.flatten(2).shape[1:]
        error = float(self.infeasibility(weight).max())
        return (
            f"its {'columns' if rows >= columns else 'rows'} are not orthonormal (largest entry of "
            f"|Q^T Q - I| is {error:.3g}). Pass init='nearest' to colangevin.constrain or to "
            "Orthogonal().init_(weight), which takes the nearest orthonormal matrix."
        )

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        """The polar factor.

        Of a weight with independent normal entries it is uniformly distributed: a fresh weight gets an
        orthogonal initialisation. To a weight without full rank (zeros, constants) many orthonormal matrices
        are equally near; one of them is drawn from torch's generator.

        Args:
            weight: the stack, in the state's dtype.
            name: what to call it in an error.

        Returns:
            The orthonormal stack.
        """
        nearest = polar(weight.flatten(2), lambda: self.draw(weight, name).flatten(2))
        return nearest.reshape(weight.shape)

    def draw(self, weight: Tensor, name: str) -> Tensor:
        drawn = torch.empty_like(weight, memory_format=torch.contiguous_format)
        for copy in drawn:
            torch.nn.init.orthogonal_(copy)
        return drawn

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        q = weight.flatten(2)
        exact = largest(gram_error(q)) <= _tolerance(q)
        if bool(exact.all()):
            return q
        return torch.where(exact.view(-1, 1, 1), q, polar(q))

    def read(self, weight: Tensor) -> Tensor:
        return weight.flatten(2)

    def lower(self, q: Tensor, shape: Sequence[int]) -> Tensor:
        return q.reshape(q.shape[0], *shape)

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return grad.flatten(2)

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        if q.shape[1:] == (1, 1):  # two points: what a projection leaves would be rounding
            return torch.zeros_like(p)
        left = _projected(q, p)
        again = _swamped(p, left)
        while bool(again.any()):
            before = left[again]
            left[again] = _projected(q[again], before)
            again[again.clone()] = _swamped(before, left[again])
        return left

    def kick_drift(self, q: Tensor, p: Tensor, grad: Tensor, b: float, a: float) -> tuple[Tensor, Tensor]:
        if a < torch.finfo(q.dtype).tiny:
            return q, self.kick(q, p, grad, b)
        return self._rattle(q, torch.sub(p, grad.flatten(2), alpha=b), a)

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        if a < torch.finfo(q.dtype).tiny:  # nothing moves, and 1/a would overflow
            return q, p
        return self._rattle(q, p, a)

    def _rattle(self, q: Tensor, x: Tensor, a: float) -> tuple[Tensor, Tensor]:
        r"""Letter A after the projection of a momentum X that need not be cotangent.

        With :math:`S = Q^T X`, :math:`Z = \frac a2 (S + S^T)` and :math:`Y = Q + aX` the target of the drift
        is :math:`\bar Q = Y - QZ`, whose products follow from those of Y,

        .. math::
            \bar Q^T \bar Q = Y^T Y - 2Z - W - W^T, \quad W = Z (aS - \tfrac12 Z), \qquad
            Q^T \bar Q = I + \tfrac a2 (S - S^T),

        so that the projection of the momentum and the drift are one product, :math:`\bar P = X - \frac1a Q
        (Z + M)` and :math:`Q' = Q + a \bar P`.

        Returns:
            The configuration and the cotangent momentum there.
        """
        aS = inner(q, x).mul_(a)
        Z = symmetric(aS)
        large = ~(norm(Z) <= _NORMAL)
        if bool(large.any()):  # Y^T Y would hold Z^2, and what the drift adds to it only as far as it rounds
            x = x.clone()
            x[large] = self.tangent(q[large], x[large])
            aS[large] = inner(q[large], x[large]).mul_(a)
            Z = symmetric(aS)
        y = torch.add(q, x, alpha=a)
        W = Z @ torch.sub(aS, Z, alpha=0.5)
        error = gram_error(y).sub_(W + W.mT).sub_(Z, alpha=2)
        M, converged = _multipliers(error, plus_identity(aS - Z))
        # P + (Q' - Q_bar)/h as X - Q (Z + M)/h: the rounding of M is multiplied by the normal directions Q,
        # which the projection below removes, however small h is
        N = Z.add_(M)
        pull = along(q, N / a)
        p_bar = torch.sub(x, pull, out=pull)
        q_new = torch.add(q, p_bar, alpha=a, out=y)
        if not bool(converged.all()):
            lost = ~converged
            q_new[lost] = polar(q_new[lost])  # M is 0 there
            p_bar[lost] = (q_new[lost] - q[lost]) / a
        _mend(q_new, converged & ~(norm(N) <= _SAFE))
        return q_new, self.tangent(q_new, p_bar)

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        M, converged = _multipliers(gram_error(q_bar), inner(q, q_bar))
        q_new = q_bar - along(q, M)
        if not bool(converged.all()):
            q_new[~converged] = polar(q_bar[~converged])
        _mend(q_new, converged & ~(norm(M) <= _SAFE))
        return q_new

    def curvature(self, q: Tensor) -> Tensor:
        s, r = sorted(q.shape[1:])
        return -(r - (s + 1) / 2) * q

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        return largest(gram_error(q))

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        size = torch.linalg.vector_norm(p, dim=-1 if wide(q) else -2).amax(-1)
        return ratio(largest(symmetric(inner(q, p)).mul_(2)), size)


def _projected(q: Tensor, p: Tensor) -> Tensor:
    """The momentum's projection, up to rounding of the momentum as it was."""
    normal = along(q, symmetric(inner(q, p)))
    return torch.sub(p, normal, out=normal)


def _swamped(before: Tensor, left: Tensor) -> Tensor:
    """For each matrix whether a projection left so little that rounding may be a large part of it."""
    size, size_left = (torch.linalg.vector_norm(x, dim=(-2, -1)) for x in (before, left))
    return torch.gt(size, _SWAMPED * size_left)


def _mend(q: Tensor, doubtful: Tensor) -> None:
    """Replace those of the doubtful matrices that are not orthonormal by their polar factor, in place."""
    if bool(doubtful.any()):
        failed = doubtful.clone()
        failed[doubtful] = ~(largest(gram_error(q[doubtful])) <= _RESULT * torch.finfo(q.dtype).eps)
        if bool(failed.any()):
            q[failed] = polar(q[failed])


def _tolerance(q: Tensor) -> float:
    return _TOLERANCE * torch.finfo(q.dtype).eps


def _multipliers(error: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    r"""Quasi-Newton for the symmetric M with :math:`(\bar Q - Q M)^T (\bar Q - Q M) = I`.

    In Gram form: with :math:`B = Q^T \bar Q` the iterate :math:`Q^{(k)} = \bar Q - Q M` has :math:`Q^{(k)T}
    Q^{(k)} = \bar Q^T \bar Q - MB - (MB)^T + M^2 = \bar Q^T \bar Q + Y + Y^T` with :math:`Y = M(\frac12 M -
    B)`, and the iteration (Eq. 54) reads :math:`M \leftarrow M + \frac12 (Q^{(k)T} Q^{(k)} - I)`: it costs
    one s x s product.

    Args:
        error: :math:`\bar Q^T \bar Q - I`.
        B: :math:`Q^T \bar Q`.

    Returns:
        M, and for each matrix whether the iteration converged; where it did not, M is 0.
    """
    error, minus_B = symmetric(error), -B
    M = torch.zeros_like(error)
    residual = error.clone()
    size = largest(residual)
    converged = size <= _tolerance(error)
    lost = torch.zeros_like(converged)
    k = 0
    while k < _ITERATIONS and not bool((converged | lost).all()):
        k += 1
        # a matrix that has converged stops, so that its result does not depend on the others of its
        # stack (and because at sigma > sqrt(3)/2 rounding grows again if the iteration goes on)
        if bool(converged.any()):
            residual.masked_fill_(converged.view(-1, 1, 1), 0)
        M.add_(residual, alpha=0.5)
        Y = M @ torch.add(minus_B, M, alpha=0.5)
        residual = torch.add(Y, Y.mT, out=residual).add_(error)
        before, size = size, largest(residual)
        converged = converged | (size <= _tolerance(error))
        near = size <= _NEARLY
        lost = lost | ~(near | (size <= _PROGRESS * before)) if k < _TRIALS else ~near
    if solves.watched():
        solves.note("Orthogonal", M.device, len(M), k, (~converged).sum())
    if not bool(converged.all()):
        M.masked_fill_(~converged.view(-1, 1, 1), 0)
    return M, converged
