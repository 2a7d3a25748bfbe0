"""One step of constrained overdamped Langevin dynamics (Eq. 7)."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from colangevin.constraints.base import Constraint
from colangevin.integrators.rates import Scalar, factor, host, sqrt, varies

__all__ = ["Numbers", "Overdamped", "follow"]

#: the step size and the scale of the noise
Numbers = tuple[Scalar, Scalar]


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

    @property
    def varies(self) -> bool:
        """Whether a copy has numbers of its own."""
        return varies(self.h) or varies(self.tau)

    def on_host(self) -> "Overdamped":
        """The same with floats for numbers that lie on a device."""
        return Overdamped(host(self.h), host(self.tau))

    @property
    def kick(self) -> Scalar:
        """What multiplies the gradient."""
        return self.h

    @property
    def noise_scale(self) -> Scalar:
        """What multiplies the noise."""
        return sqrt(2 * self.tau * self.h)

    def noise_shapes(
        self, constraint: Constraint, shape: tuple[int, ...], segment: int
    ) -> list[tuple[int, ...]]:
        """Shapes of the noise one weight needs; none at temperature 0."""
        return [constraint.euler_noise_shape(shape)] if self.noisy else []

    def step(self, constraint: Constraint, q: Tensor, grad: Tensor, noise: Sequence[Tensor]) -> Tensor:
        """The next configuration."""
        return follow(self.numbers(), constraint, q, grad, noise)

    def numbers(self) -> Numbers:
        """The step size and the scale of the noise."""
        return host(self.h), self.on_host().noise_scale


def follow(
    numbers: Numbers, constraint: Constraint, q: Tensor, grad: Tensor, noise: Sequence[Tensor]
) -> Tensor:
    """The configuration after a step."""
    h, grad = factor(numbers[0], grad)
    if not noise:
        return constraint.euler(q, grad, h, 0.0, None)
    sigma, R = factor(numbers[1], noise[0])
    return constraint.euler(q, grad, h, sigma, R)
