r"""Orthogonality: :math:`W^T W = I` or :math:`W W^T = I`, whichever the shape allows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import solves
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
# Share of the largest eigenvalue of Q^T Q below which an eigenvalue has lost too many digits for the polar
# factor: of what is left of them, 1e-8, one correction leaves rounding.
_SINGULAR = 1e-8
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
# Side from which on a symmetric product is computed in blocks: below, calls cost more than half of it saves.
_WORTH_HALVING = 256


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
        return _largest(_gram_error(weight.flatten(2)))

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
        exact = _largest(_gram_error(q)) <= _tolerance(q)
        if bool(exact.all()):
            return q
        return torch.where(exact.view(-1, 1, 1), q, _polar(q))

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
        aS = _inner(q, x).mul_(a)
        Z = _symmetric(aS)
        large = ~(_norm(Z) <= _NORMAL)
        if bool(large.any()):  # Y^T Y would hold Z^2, and what the drift adds to it only as far as it rounds
            x = x.clone()
            x[large] = self.tangent(q[large], x[large])
            aS[large] = _inner(q[large], x[large]).mul_(a)
            Z = _symmetric(aS)
        y = torch.add(q, x, alpha=a)
        W = Z @ torch.sub(aS, Z, alpha=0.5)
        error = _gram_error(y).sub_(W + W.mT).sub_(Z, alpha=2)
        M, converged = _multipliers(error, _plus_identity(aS - Z))
        # P + (Q' - Q_bar)/h as X - Q (Z + M)/h: the rounding of M is multiplied by the normal directions Q,
        # which the projection below removes, however small h is
        N = Z.add_(M)
        pull = _along(q, N / a)
        p_bar = torch.sub(x, pull, out=pull)
        q_new = torch.add(q, p_bar, alpha=a, out=y)
        if not bool(converged.all()):
            lost = ~converged
            q_new[lost] = _polar(q_new[lost])  # M is 0 there
            p_bar[lost] = (q_new[lost] - q[lost]) / a
        _mend(q_new, converged & ~(_norm(N) <= _SAFE))
        return q_new, self.tangent(q_new, p_bar)

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        M, converged = _multipliers(_gram_error(q_bar), _inner(q, q_bar))
        q_new = q_bar - _along(q, M)
        if not bool(converged.all()):
            q_new[~converged] = _polar(q_bar[~converged])
        _mend(q_new, converged & ~(_norm(M) <= _SAFE))
        return q_new

    def curvature(self, q: Tensor) -> Tensor:
        s, r = sorted(q.shape[1:])
        return -(r - (s + 1) / 2) * q

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        return _largest(_gram_error(q))

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        size = torch.linalg.vector_norm(p, dim=-1 if _wide(q) else -2).amax(-1)
        return ratio(_largest(_symmetric(_inner(q, p)).mul_(2)), size)


# ---- products in the orientation of the weight: to transpose it would cost as much as a product ------------


def _wide(q: Tensor) -> bool:
    """Whether Q is the transpose of q."""
    return q.shape[-2] < q.shape[-1]


def _inner(q: Tensor, p: Tensor) -> Tensor:
    """Q^T P."""
    return q @ p.mT if _wide(q) else q.mT @ p


def _along(q: Tensor, M: Tensor) -> Tensor:
    """Q M for a symmetric M."""
    return M @ q if _wide(q) else q @ M


def _gram_error(q: Tensor) -> Tensor:
    """Q^T Q - I."""
    return _plus_identity(_gram(q, -2 if _wide(q) else -1), -1)


def _gram(q: Tensor, dim: int) -> Tensor:
    """The inner products of the rows (or columns) of q; of large ones no block is computed twice."""
    s = q.shape[dim]
    if s < _WORTH_HALVING:
        return q @ q.mT if dim == -2 else q.mT @ q
    one, other = q.split([s // 2, s - s // 2], dim)
    across = one @ other.mT if dim == -2 else one.mT @ other
    gram = q.new_empty(q.shape[0], s, s)
    gram[:, : s // 2, : s // 2] = _gram(one, dim)
    gram[:, s // 2 :, s // 2 :] = _gram(other, dim)
    gram[:, : s // 2, s // 2 :] = across
    gram[:, s // 2 :, : s // 2] = across.mT
    return gram


def _plus_identity(matrix: Tensor, scale: float = 1) -> Tensor:
    """Add a multiple of I to square matrices, in place."""
    matrix.diagonal(dim1=-2, dim2=-1).add_(scale)
    return matrix


def _symmetric(matrix: Tensor) -> Tensor:
    """The symmetric part of square matrices."""
    return (matrix + matrix.mT).mul_(0.5)


def _largest(matrix: Tensor) -> Tensor:
    """Largest absolute entry of each matrix of a stack; NaN if there is one."""
    return matrix.abs().amax(dim=(-2, -1))


def _norm(matrix: Tensor) -> Tensor:
    """A bound on the spectral norm of each symmetric matrix of a stack: the largest row sum."""
    return matrix.abs().sum(-1).amax(-1)


def _projected(q: Tensor, p: Tensor) -> Tensor:
    """The momentum's projection, up to rounding of the momentum as it was."""
    normal = _along(q, _symmetric(_inner(q, p)))
    return torch.sub(p, normal, out=normal)


def _swamped(before: Tensor, left: Tensor) -> Tensor:
    """For each matrix whether a projection left so little that rounding may be a large part of it."""
    size, size_left = (torch.linalg.vector_norm(x, dim=(-2, -1)) for x in (before, left))
    return torch.gt(size, _SWAMPED * size_left)


def _mend(q: Tensor, doubtful: Tensor) -> None:
    """Replace those of the doubtful matrices that are not orthonormal by their polar factor, in place."""
    if bool(doubtful.any()):
        failed = doubtful.clone()
        failed[doubtful] = ~(_largest(_gram_error(q[doubtful])) <= _RESULT * torch.finfo(q.dtype).eps)
        if bool(failed.any()):
            q[failed] = _polar(q[failed])


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
    error, minus_B = _symmetric(error), -B
    M = torch.zeros_like(error)
    residual = error.clone()
    size = _largest(residual)
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
        before, size = size, _largest(residual)
        converged = converged | (size <= _tolerance(error))
        near = size <= _NEARLY
        lost = lost | ~(near | (size <= _PROGRESS * before)) if k < _TRIALS else ~near
    if solves.watched():
        solves.note("Orthogonal", M.device, len(M), k, (~converged).sum())
    if not bool(converged.all()):
        M.masked_fill_(~converged.view(-1, 1, 1), 0)
    return M, converged


def _polar(q_bar: Tensor) -> Tensor:
    r"""The polar factor :math:`\bar Q (\bar Q^T \bar Q)^{-1/2}`, computed in float64.

    It is the nearest orthonormal matrix. Scaling first keeps entries of any finite size from overflowing.
    Where :math:`\bar Q` is nearly singular it comes from an SVD, :math:`U V^T`, which takes longer: singular
    vectors are orthonormal whatever the rank, so this cannot fail.

    Returns:
        An orthonormal matrix of the dtype of ``q_bar``.
    """
    scale = q_bar.abs().amax(dim=(-2, -1), keepdim=True).clamp_min(torch.finfo(q_bar.dtype).tiny)
    x = (q_bar / scale).double()
    squares, V = torch.linalg.eigh(_inner(x, x))
    factor = _along(x, V * squares.clamp_min(torch.finfo(x.dtype).tiny).rsqrt().unsqueeze(-2) @ V.mT)
    singular = squares[:, 0] <= _SINGULAR * squares[:, -1]
    if bool(singular.any()):
        U, _, Vt = torch.linalg.svd(x[singular], full_matrices=False)
        factor[singular] = U @ Vt
    # what rounding in the squares has left of Q^T Q - I is squared
    factor = torch.sub(factor, _along(factor, _gram_error(factor)), alpha=0.5)
    return factor.to(q_bar.dtype)
