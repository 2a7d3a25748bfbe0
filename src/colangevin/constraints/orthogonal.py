r"""Orthogonality: :math:`W^T W = I` or :math:`W W^T = I`, whichever the shape allows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.base import Constraint, ratio
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

    # how often the polar factor was taken; a note on the side, no part of the value
    _polar_count: list[int] = field(default_factory=lambda: [0], init=False, repr=False, compare=False)

    @property
    def fallbacks(self) -> int:
        """How many matrices took the polar factor because the iteration had not converged, in plain torch."""
        return self._polar_count[0]

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
        return _largest(_gram_error(_tall(weight.flatten(2))))

    def explain(self, weight: Tensor) -> str:
        rows, columns = weight.flatten(2).shape[1:]
        error = float(self.infeasibility(weight).max())
        return (
            f"its {'columns' if rows >= columns else 'rows'} are not orthonormal (largest entry of "
            f"|Q^T Q - I| is {error:.3g}). Call Orthogonal().init_(weight) first, or pass the model through "
            "colangevin.constrain."
        )

    def place(self, weight: Tensor, name: str) -> Tensor:
        placed = torch.empty_like(weight, memory_format=torch.contiguous_format)
        for copy in placed:
            torch.nn.init.orthogonal_(copy)
        return placed

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        q = weight.flatten(2)
        Q = _tall(q)
        exact = _largest(_gram_error(Q)) <= _tolerance(Q)
        if bool(exact.all()):
            return q
        return _as(q, torch.where(exact.view(-1, 1, 1), Q, _polar(Q)))

    def read(self, weight: Tensor) -> Tensor:
        return weight.flatten(2)

    def lower(self, q: Tensor, shape: Sequence[int]) -> Tensor:
        return q.reshape(q.shape[0], *shape)

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return grad.flatten(2)

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        return _as(q, _tangent(_tall(q), _tall(p)))

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        if a < torch.finfo(q.dtype).tiny:  # nothing moves, and 1/a would overflow
            return q, p
        Q, P = _tall(q), _tall(p)
        Q_bar = torch.add(Q, P, alpha=a)
        M, converged = _multipliers(Q, Q_bar)
        QM = Q @ M
        # P + (Q' - Q_bar)/h as P - Q M/h: the rounding of M is multiplied by the normal directions Q,
        # which the projection below removes, however small h is
        Q_new, P_bar = Q_bar.sub_(QM), torch.add(P, QM, alpha=-1 / a)
        if not bool(converged.all()):
            lost = ~converged
            self._polar_count[0] += int(lost.sum())
            Q_new[lost] = _polar(torch.add(Q[lost], P[lost], alpha=a))
            P_bar[lost] = (Q_new[lost] - Q[lost]) / a
        return _as(q, Q_new), _as(q, _tangent(Q_new, P_bar))

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        Q, Q_bar = _tall(q), _tall(q_bar)
        M, converged = _multipliers(Q, Q_bar)
        Q_new = torch.baddbmm(Q_bar, Q, M, alpha=-1)
        if not bool(converged.all()):
            self._polar_count[0] += int((~converged).sum())
            Q_new[~converged] = _polar(Q_bar[~converged])
        return _as(q, Q_new)

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        return _largest(_gram_error(_tall(q)))

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        P = _tall(p)
        QtP = _tall(q).mT @ P
        size = torch.linalg.vector_norm(P, dim=-2).amax(-1)
        return ratio(_largest(QtP + QtP.mT), size)


def _tall(q: Tensor) -> Tensor:
    """A stack of matrices, transposed when they are wide: Q, (copies, r, s) with r >= s."""
    return q if q.shape[1] >= q.shape[2] else q.mT


def _as(q: Tensor, Q: Tensor) -> Tensor:
    """A stack of tall matrices in the orientation of q."""
    return Q if q.shape[1] >= q.shape[2] else Q.mT


def _tangent(Q: Tensor, P: Tensor) -> Tensor:
    """P - Q (P^T Q + Q^T P)/2."""
    QtP = Q.mT @ P
    return torch.baddbmm(P, Q, QtP + QtP.mT, alpha=-0.5)


def _gram_error(Q: Tensor) -> Tensor:
    """Q^T Q - I."""
    error = Q.mT @ Q
    error.diagonal(dim1=-2, dim2=-1).sub_(1)
    return error


def _largest(matrix: Tensor) -> Tensor:
    """Largest absolute entry of each matrix of a stack; NaN if there is one."""
    return matrix.abs().amax(dim=(-2, -1))


def _tolerance(Q: Tensor) -> float:
    return _TOLERANCE * torch.finfo(Q.dtype).eps


def _multipliers(Q: Tensor, Q_bar: Tensor) -> tuple[Tensor, Tensor]:
    r"""Quasi-Newton for the symmetric M with :math:`(\bar Q - Q M)^T (\bar Q - Q M) = I`.

    In Gram form: with :math:`A = \bar Q^T \bar Q` and :math:`B = Q^T \bar Q`, the iterate :math:`Q^{(k)} =
    \bar Q - Q M` has :math:`Q^{(k)T} Q^{(k)} = A - MB - (MB)^T + M^2 = A + Y + Y^T` with :math:`Y =
    M(\frac12 M - B)`, and the iteration (Eq. 54) reads :math:`M \leftarrow M +
    \frac12 (Q^{(k)T} Q^{(k)} - I)`: it costs one s x s product.

    Returns:
        M, and for each matrix whether the iteration converged; where it did not, M is 0.
    """
    error = _gram_error(Q_bar)  # A - I
    B = Q.mT @ Q_bar
    M = torch.zeros_like(error)
    residual = error
    size = _largest(residual)
    converged = size <= _tolerance(Q)
    lost = torch.zeros_like(converged)
    for k in range(1, _ITERATIONS + 1):
        if bool((converged | lost).all()):
            break
        # a matrix that has converged stops, so that its result does not depend on the others of its
        # stack (and because at sigma > sqrt(3)/2 rounding grows again if the iteration goes on)
        M = torch.where(converged.view(-1, 1, 1), M, torch.add(M, residual + residual.mT, alpha=0.25))
        Y = M @ torch.add(-B, M, alpha=0.5)
        residual = error + Y + Y.mT
        before, size = size, _largest(residual)
        converged = converged | (size <= _tolerance(Q))
        near = size <= _NEARLY
        lost = lost | ~(near | (size <= _PROGRESS * before)) if k < _TRIALS else ~near
    return M.masked_fill(~converged.view(-1, 1, 1), 0), converged


def _polar(Q_bar: Tensor) -> Tensor:
    r"""The polar factor :math:`\bar Q (\bar Q^T \bar Q)^{-1/2} = U V^T`, by an SVD in float64.

    It is the nearest orthonormal matrix. Scaling first keeps entries of any finite size from
    overflowing, and singular vectors are orthonormal whatever the rank, so this cannot fail.

    Returns:
        An orthonormal matrix of the dtype of ``Q_bar``.
    """
    scale = Q_bar.abs().amax(dim=(-2, -1), keepdim=True).clamp_min(torch.finfo(Q_bar.dtype).tiny)
    U, _, Vt = torch.linalg.svd((Q_bar / scale).double(), full_matrices=False)
    factor: Tensor = U @ Vt
    return factor.to(Q_bar.dtype)
