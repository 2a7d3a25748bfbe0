"""One step of constrained overdamped Langevin dynamics (eq. constrainedOverdampedLangevin)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from colangevin.constraints.base import Constraint

__all__ = ["Overdamped"]


@dataclass(frozen=True)
class Overdamped:
    r"""Euler-Maruyama and projection: :math:`\bar q = q - hG + \sqrt{2\tau h}\,R`, then onto the manifold."""

    h: float
    tau: float

    segments = 1

    @property
    def kick(self) -> float:
        """What multiplies the gradient."""
        return self.h

    def noise_shapes(
        self, constraint: Constraint, shape: tuple[int, ...], segment: int
    ) -> list[tuple[int, ...]]:
        """Shapes of the noise one weight needs; none at temperature 0."""
        return [constraint.euler_noise_shape(shape)] if self.tau > 0 else []

    def step(self, constraint: Constraint, q: Tensor, grad: Tensor, noise: Sequence[Tensor]) -> Tensor:
        """The next configuration."""
        sigma = math.sqrt(2 * self.tau * self.h)
        return constraint.euler(q, grad, self.h, sigma, noise[0] if noise else None)
