"""Frames: the manifold of matrices with orthonormal rows or columns."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from colangevin.constraints.capabilities import EmbeddedCurvature
from colangevin.constraints.forms import OrthogonalForm
from colangevin.constraints.multipliers import exact, multipliers, orthonormal, safe
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
from colangevin.constraints.stacks import ratio

__all__ = ["Frames"]

# A momentum this many times shorter than what its projection removed is projected again: the removed part
# leaves its rounding behind, which need not be small beside the momentum.
_SWAMPED = 2.0
# Largest normal part of a step that the drift takes up in its own products, where it costs (1 + |Z|)^2 of the
# precision; a larger one is projected away first.
_NORMAL = 0.5


class Frames(EmbeddedCurvature):
    """Matrices with orthonormal rows or columns: the weight, flattened to (n_out, rest)."""

    stacks = True
    turns = True

    @property
    def form(self) -> OrthogonalForm:
        return OrthogonalForm()

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return self.shape[0], math.prod(self.shape[1:])

    @property
    def degrees_of_freedom(self) -> int:
        s, r = sorted(self.sides)
        return r * s - s * (s + 1) // 2

    # ---- what differs where a process has a part of the matrix only ------------------------------

    @property
    def sides(self) -> tuple[int, ...]:
        """Rows and columns of the matrix."""
        return self.configuration_shape

    def inner(self, q: Tensor, p: Tensor) -> Tensor:
        """Q^T P."""
        return inner(q, p)

    def along(self, q: Tensor, M: Tensor) -> Tensor:
        """Q M for a symmetric M."""
        return along(q, M)

    def gram_error(self, q: Tensor) -> Tensor:
        """Q^T Q - I."""
        return gram_error(q)

    def sizes(self, *matrices: Tensor) -> Iterable[Tensor]:
        """The Frobenius norms of stacks of matrices."""
        return (torch.linalg.vector_norm(x, dim=(-2, -1)) for x in matrices)

    def polar(self, q_bar: Tensor) -> Tensor:
        """The nearest orthonormal matrices."""
        return polar(q_bar)

    def multipliers(self, error: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
        """See :func:`~colangevin.constraints.multipliers.multipliers`."""
        return multipliers(error, B)

    def agreed(self, flags: Tensor) -> Tensor:
        """What is decided for each matrix of a stack, before a branch that has products in it."""
        return flags

    # ---- the weight and its matrix ---------------------------------------------------------------

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        q = weight.flatten(2)
        off = self.agreed(~exact(self.gram_error(q)))
        return torch.where(off.view(-1, 1, 1), self.polar(q), q) if bool(off.any()) else q

    def read(self, weight: Tensor) -> Tensor:
        return weight.flatten(2)

    def lower(self, q: Tensor) -> Tensor:
        return q.reshape(q.shape[0], *self.shape)

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return grad.flatten(2)

    # ---- moves -----------------------------------------------------------------------------------

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        if self.sides == (1, 1):  # two points: what a projection leaves would be rounding
            return torch.zeros_like(p)
        left = self._projected(q, p)
        again = self._swamped(p, left)
        while bool(again.any()):
            before = left[again]
            left[again] = self._projected(q[again], before)
            again[again.clone()] = self._swamped(before, left[again])
        return left

    def _projected(self, q: Tensor, p: Tensor) -> Tensor:
        """The momentum's projection, up to rounding of the momentum as it was."""
        normal = self.along(q, symmetric(self.inner(q, p)))
        return torch.sub(p, normal, out=normal)

    def _swamped(self, before: Tensor, left: Tensor) -> Tensor:
        """For each matrix whether a projection left so little that rounding may be a large part of it."""
        size, size_left = self.sizes(before, left)
        return torch.gt(size, _SWAMPED * size_left)

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        if a < torch.finfo(q.dtype).tiny:  # nothing moves, and 1/a would overflow
            return q, p
        return self._rattle(q, p, a)

    def kick_drift(self, q: Tensor, p: Tensor, grad: Tensor, b: float, a: float) -> tuple[Tensor, Tensor]:
        if a < torch.finfo(q.dtype).tiny:
            return super().kick_drift(q, p, grad, b, a)
        return self._rattle(q, torch.sub(p, grad.flatten(2), alpha=b), a)

    def _rattle(self, q: Tensor, x: Tensor, a: float) -> tuple[Tensor, Tensor]:
        r"""Letter A after the projection of a momentum X that need not be cotangent.

        With $S = Q^T X$, $Z = \frac a2 (S + S^T)$ and $Y = Q + aX$ the target of the drift is
        $\bar Q = Y - QZ$, whose products follow from those of Y,

        $$
        \bar Q^T \bar Q = Y^T Y - 2Z - W - W^T, \quad W = Z (aS - \tfrac12 Z), \qquad
        Q^T \bar Q = I + \tfrac a2 (S - S^T),
        $$

        so that the projection of the momentum and the drift are one product, $\bar P = X - \frac1a Q (Z + M)$
        and $Q' = Q + a \bar P$.

        Returns:
            The configuration and the cotangent momentum there.
        """
        aS = self.inner(q, x).mul_(a)
        Z = symmetric(aS)
        large = self.agreed(~(norm(Z) <= _NORMAL))
        if bool(large.any()):  # Y^T Y would hold Z^2, and what the drift adds to it only as far as it rounds
            x = x.clone()
            x[large] = self.tangent(q[large], x[large])
            aS[large] = self.inner(q[large], x[large]).mul_(a)
            Z = symmetric(aS)
        y = torch.add(q, x, alpha=a)
        W = Z @ torch.sub(aS, Z, alpha=0.5)
        error = self.gram_error(y).sub_(W + W.mT).sub_(Z, alpha=2)
        M, converged = self.multipliers(error, plus_identity(aS - Z))
        # P + (Q' - Q_bar)/h as X - Q (Z + M)/h: the rounding of M is multiplied by the normal directions Q,
        # which the projection below removes, however small h is
        N = Z.add_(M)
        pull = self.along(q, N / a)
        p_bar = torch.sub(x, pull, out=pull)
        q_new = torch.add(q, p_bar, alpha=a, out=y)
        if not bool(converged.all()):
            lost = ~converged
            q_new[lost] = self.polar(q_new[lost])  # M is 0 there
            p_bar[lost] = (q_new[lost] - q[lost]) / a
        self._mend(q_new, N, converged)
        return q_new, self.tangent(q_new, p_bar)

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        M, converged = self.multipliers(self.gram_error(q_bar), self.inner(q, q_bar))
        q_new = q_bar - self.along(q, M)
        if not bool(converged.all()):
            q_new[~converged] = self.polar(q_bar[~converged])
        self._mend(q_new, M, converged)
        return q_new

    def _mend(self, q: Tensor, M: Tensor, converged: Tensor) -> None:
        """Replace results that are not orthonormal by their polar factor, in place.

        Only results of large multipliers are looked at: their rounding may show.

        Args:
            q: the results.
            M: what led to them.
            converged: whether the iteration found them.
        """
        doubtful = self.agreed(converged & ~safe(M))
        if bool(doubtful.any()):
            failed = doubtful.clone()
            failed[doubtful] = self.agreed(~orthonormal(self.gram_error(q[doubtful])))
            if bool(failed.any()):
                q[failed] = self.polar(q[failed])

    def steepest(self, q: Tensor, p: Tensor, orthogonalised: Callable[[Tensor], Tensor]) -> Tensor:
        r"""Of a square Q the steepest tangent direction in the spectral norm, $Q\,\mathrm{msign}(Q^T P)$.

        The skew part of $Q^T P$ is what a tangent direction can follow, and its matrix sign is skew. Of other
        shapes there is no closed form: there it is the matrix sign of P, whose projection is cheap.

        Args:
            q: the configurations.
            p: averaged gradients.
            orthogonalised: the matrix sign.

        Returns:
            The directions.
        """
        if len(set(self.sides)) > 1:
            return super().steepest(q, p, orthogonalised)
        S = self.inner(q, p)
        return q @ orthogonalised((S - S.mT).mul_(0.5))

    def curvature(self, q: Tensor) -> Tensor:
        s, r = sorted(self.sides)
        return -(r - (s + 1) / 2) * q

    # ---- feasibility -----------------------------------------------------------------------------

    def infeasibility(self, weight: Tensor) -> Tensor:
        return largest(self.gram_error(weight.flatten(2)))

    def explain(self, weight: Tensor) -> str:
        rows, columns = self.sides
        error = float(self.infeasibility(weight).max())
        return (
            f"its {'columns' if rows >= columns else 'rows'} are not orthonormal (largest entry of "
            f"|Q^T Q - I| is {error:.3g}). Pass init='nearest' to colangevin.constrain or to "
            f"{self.constraint!r}.init_(weight), which takes the nearest orthonormal matrix."
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

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        size = torch.linalg.vector_norm(p, dim=-1 if wide(q) else -2).amax(-1)
        return ratio(largest(symmetric(inner(q, p)).mul_(2)), size)
