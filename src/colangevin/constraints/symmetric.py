r"""Symmetry: $W = W^T$."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from colangevin.constraints.capabilities import EmbeddedCurvature
from colangevin.constraints.constraint import Constraint
from colangevin.constraints.stacks import largest_per_copy, plus, ratio
from colangevin.errors import ConstraintError, label

__all__ = ["Symmetric"]


class SymmetricMatrices(EmbeddedCurvature):
    """Square matrices that equal their transpose: a plane, whose configuration is the weight."""

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def degrees_of_freedom(self) -> int:
        n = self.shape[0]
        return n * (n + 1) // 2

    # ---- the weight itself -----------------------------------------------------------------------

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        return symmetric_part(weight)

    def read(self, weight: Tensor) -> Tensor:
        return weight

    def lower(self, q: Tensor) -> Tensor:
        return q

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return grad

    # ---- moves -----------------------------------------------------------------------------------

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        return symmetric_part(p)

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        return plus(q, p, a), p  # two equal entries are rounded alike

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        return symmetric_part(q_bar)

    def curvature(self, q: Tensor) -> Tensor:
        return torch.zeros_like(q)

    # ---- feasibility -----------------------------------------------------------------------------

    def infeasibility(self, weight: Tensor) -> Tensor:
        return ratio(largest_per_copy((weight - weight.mT).abs()), largest_per_copy(weight.abs()))

    def explain(self, weight: Tensor) -> str:
        difference = float((weight - weight.mT).abs().max())
        return (
            f"it is not symmetric (largest entry of |W - W^T| is {difference:.3g}). Pass init='nearest' to "
            "colangevin.constrain or to Symmetric().init_(weight), which takes (W + W^T) / 2."
        )


def symmetric_part(matrix: Tensor) -> Tensor:
    """Half the sum of a stack of matrices and its transpose."""
    return (matrix + matrix.mT).mul_(0.5)


@dataclass(frozen=True)
class Symmetric(Constraint):
    r"""Keep a square weight symmetric, $W = W^T$: interactions between pairs, metrics, Hopfield networks.

    Both entries of a pair start equal, or at their mean, and move together. The configuration is the weight.
    Geodesics are straight lines, and $\Pi P = \frac12 (P + P^T)$. At $V = 0$ there is no normalisable law:
    the set is a plane. Under a loss L the law is $e^{-L/\tau}$ on this plane.

    Examples:
        >>> model = nn.Linear(4, 4)
        >>> groups = cl.constrain(model, {"weight": cl.Symmetric()})
        >>> torch.equal(model.weight, model.weight.T)
        True
    """

    manifold = SymmetricMatrices

    def check_shape(self, shape: Sequence[int], name: str = "weight", copies: int = 1) -> None:
        if len(shape) != 2 or shape[0] != shape[1]:
            raise ConstraintError(
                f"{label(name, shape)}: Symmetric needs a square matrix, of shape (n, n). Leave this weight "
                "free, or hold another one."
            )
