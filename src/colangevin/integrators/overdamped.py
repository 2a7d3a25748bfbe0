"""One step of constrained overdamped Langevin dynamics (Eq. 7)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from colangevin.constraints.base import Constraint
from colangevin.integrators.rates import Scalar, host

__all__ = ["Overdamped"]


@dataclass(frozen=True)
class Overdamped:
    r"""Euler-Maruyama and projection: :math:`\bar q = q - hG + \sqrt{2\tau h}\,R`, then onto the manifold."""

    h: Scalar
    tau: Scalar

    segments = 1

    @property
    def noisy(self) -> bool:
        """Whether there is noise, or may be: a temperature on the device is not looked at."""
        return isinstance(self.tau, Tensor) or self.tau > 0

    def on_host(self) -> "Overdamped":
        """The same with floats for numbers that lie on a device."""
        return Overdamped(host(self.h), host(self.tau))

    @property
    def kick(self) -> Scalar:
        """What multiplies the gradient."""
        return self.h

    def noise_shapes(
        self, constraint: Constraint, shape: tuple[int, ...], segment: int
    ) -> list[tuple[int, ...]]:
        """Shapes of the noise one weight needs; none at temperature 0."""
        return [constraint.euler_noise_shape(shape)] if self.noisy else []

    def step(self, constraint: Constraint, q: Tensor, grad: Tensor, noise: Sequence[Tensor]) -> Tensor:
        """The next configuration."""
        return constraint.euler(q, grad, *self.numbers(), noise[0] if noise else None)

    def numbers(self) -> tuple[float, float]:
        """The step size and the scale of the noise."""
        h = host(self.h)
        return h, math.sqrt(2 * host(self.tau) * h)
