r"""Orthogonality: :math:`W^T W = I` or :math:`W W^T = I`, whichever the shape allows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.base import Constraint
from colangevin.errors import ConstraintError, label

__all__ = ["Orthogonal"]

# The iteration contracts by about sigma = h |P|_2 at worst (by 1 - sqrt(1 - sigma^2) at best): 30 iterations
# reach rounding for sigma up to 0.3 to 0.85. Beyond that the polar projection is cheaper and safer.
_ITERATIONS = 30
# Largest |Q^T Q - I| left by the iteration, in units of the dtype's rounding: the recursion's own floor
# is about 2 units at s = 16 and 6 at s = 2048.
_TOLERANCE = 8.0


@dataclass(frozen=True)
class Orthogonal(Constraint):
    r"""Orthonormal rows or columns (eq. orthogonalConstraint).

    A weight of rank 2 or more is flattened to (n_out, rest). The configuration is the tall matrix
    :math:`Q \in R^{r \times s}`, :math:`r \ge s`: the flattened weight, or its transpose when it is wide
    (as almost every convolution kernel is). With :math:`\Pi_Q P = P - \frac12 Q (P^T Q + Q^T P)`, letter A
    is RATTLE,

    .. math::
        \bar Q = Q + hP, \quad Q' = \mathrm{project}(\bar Q), \quad
        \bar P = P + \tfrac1h (Q' - \bar Q), \quad P' = \Pi_{Q'} \bar P.

    The projection is the paper's quasi-Newton iteration :math:`Q^{(k+1)} = Q^{(k)} - \frac12 Q (Q^{(k)T}
    Q^{(k)} - I)` wherever it converges, and the polar factor :math:`\bar Q (\bar Q^T \bar Q)^{-1/2}`
    wherever it does not, so that no step leaves the manifold (eqs. quasiNewton_orthogonalConstraint and
    OLdiscretization2).

    Leimkuhler et al. 2021, Algorithms 1 and 2 and appendix "Orthogonality constraint".
    """

    stacks = True

    def describe(self) -> dict[str, Any]:
        return {"name": "Orthogonal"}

    def check_shape(self, shape: Sequence[int], name: str = "weight") -> None:
        if len(shape) < 2:
            raise ConstraintError(
                f"{label(name, shape)}: Orthogonal needs a weight with at least 2 dimensions, this one "
                f"has {len(shape)}. Leave it free, or use Circle or Sphere."
            )

    def configuration_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        rows, columns = shape[0], math.prod(shape[1:])
        return max(rows, columns), min(rows, columns)

    def degrees_of_freedom(self, shape: Sequence[int]) -> int:
        r, s = self.configuration_shape(shape)
        return r * s - s * (s + 1) // 2

    @staticmethod
    def _tall(weight: Tensor) -> Tensor:
        """A stack of weights as tall matrices (copies, r, s)."""
        matrix = weight.flatten(2)
        return matrix if matrix.shape[1] >= matrix.shape[2] else matrix.mT

    def infeasibility(self, weight: Tensor) -> Tensor:
        return _largest(_gram_error(self._tall(weight)))

    def explain(self, weight: Tensor) -> str:
        Q = self._tall(weight)
        side = "columns" if weight.flatten(2).shape[1] >= weight.flatten(2).shape[2] else "rows"
        error = float(_largest(_gram_error(Q)).max())
        return (
            f"its {side} are not orthonormal (largest entry of |Q^T Q - I| is {error:.3g}). Call "
            "Orthogonal().init_(weight) first, or pass the model through colangevin.constrain."
        )

    def place(self, weight: Tensor, name: str) -> Tensor:
        placed = torch.empty_like(weight, memory_format=torch.contiguous_format)
        for copy in placed:
            torch.nn.init.orthogonal_(copy)
        return placed

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        Q = self._tall(weight)
        exact = _largest(_gram_error(Q)) <= _tolerance(Q)
        if bool(exact.all()):
            return Q
        return torch.where(exact.view(-1, 1, 1), Q, _polar(Q))

    def read(self, weight: Tensor) -> Tensor:
        return self._tall(weight)

    def lower(self, q: Tensor, shape: Sequence[int]) -> Tensor:
        wide = shape[0] < math.prod(shape[1:])
        return (q.mT if wide else q).reshape(q.shape[0], *shape)

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return self._tall(grad)

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        QtP = q.mT @ p
        return torch.baddbmm(p, q, QtP + QtP.mT, alpha=-0.5)

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        if a == 0:
            return q, p
        Q_bar = torch.add(q, p, alpha=a)
        M, converged = _multipliers(q, Q_bar)
        Q_new = torch.baddbmm(Q_bar, q, M, alpha=-1)
        # P + (Q' - Q_bar)/h as P - Q M/h: the rounding of M is multiplied by the normal directions Q,
        # which the projection below removes, however small h is
        P_bar = torch.baddbmm(p, q, M, alpha=-1 / a)
        if not bool(converged.all()):
            lost = ~converged
            Q_new[lost] = _polar(Q_bar[lost])
            P_bar[lost] = (Q_new[lost] - q[lost]) / a
        return Q_new, self.tangent(Q_new, P_bar)

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        M, converged = _multipliers(q, q_bar)
        Q_new = torch.baddbmm(q_bar, q, M, alpha=-1)
        if not bool(converged.all()):
            Q_new[~converged] = _polar(q_bar[~converged])
        return Q_new

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        return _largest(_gram_error(q))

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        QtP = q.mT @ p
        size = torch.linalg.vector_norm(p, dim=-2).amax(-1)
        error = _largest(QtP + QtP.mT)
        return torch.where(size > 0, error / size.masked_fill(size <= 0, 1), error)


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
    \bar Q - Q M` has :math:`Q^{(k)T} Q^{(k)} = A - MB - (MB)^T + M^2`, and the iteration (eq.
    quasiNewton_orthogonalConstraint) reads :math:`M \leftarrow M + \frac12 (Q^{(k)T} Q^{(k)} - I)`: it costs
    s x s products only.

    Returns:
        M, and for each matrix whether the iteration converged; where it did not, M is 0.
    """
    error = _gram_error(Q_bar)  # A - I
    B = Q.mT @ Q_bar
    M = torch.zeros_like(error)
    residual = error
    converged = _largest(residual) <= _tolerance(Q)
    for _ in range(_ITERATIONS):
        if bool(converged.all()):
            break
        # a matrix that has converged stops, so that its result does not depend on the others of its
        # stack (and because at sigma > sqrt(3)/2 rounding grows again if the iteration goes on)
        going = ~converged.view(-1, 1, 1)
        M = torch.where(going, torch.add(M, residual + residual.mT, alpha=0.25), M)
        MB = M @ B
        residual = torch.baddbmm(error, M, M) - MB - MB.mT
        converged = converged | (_largest(residual) <= _tolerance(Q))
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
