"""One step of constrained overdamped Langevin dynamics (Eq. 7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from colangevin.constraints.manifold import Manifold
from colangevin.dynamics.langevin import Langevin
from colangevin.dynamics.rates import Scalar, factor, host, largest, sqrt, varies

__all__ = ["Numbers", "Overdamped", "follow"]

#: the step size and the scale of the noise
Numbers = tuple[Scalar, Scalar]


@dataclass(frozen=True)
class Overdamped(Langevin):
    r"""Euler-Maruyama and projection: :math:`\bar q = q - hG + \sqrt{2\tau h}\,R`, then onto the manifold."""

    h: Scalar
    tau: Scalar

    #: how many gradients a step needs
    segments = 1

    def kept(self, manifold: Manifold) -> tuple[str, ...]:
        """What a step keeps in the state beside the position."""
        return ()

    @cached_property
    def noisy(self) -> bool:
        """Whether there is noise, or may be: a temperature on the device is not looked at."""
        return isinstance(self.tau, Tensor) or self.tau > 0

    @cached_property
    def varies(self) -> bool:
        """Whether a copy has numbers of its own."""
        return varies(self.h) or varies(self.tau)

    @cached_property
    def on_host(self) -> "Overdamped":
        """The same with floats for numbers that lie on a device."""
        return Overdamped(host(self.h), host(self.tau))

    @cached_property
    def largest_kick(self) -> float:
        """The largest number that multiplies a gradient."""
        return largest(self.h)

    @cached_property
    def noise_scale(self) -> Scalar:
        """What multiplies the noise."""
        return sqrt(2 * self.tau * self.h)

    def noise_shapes(self, manifold: Manifold, segment: int = 0) -> list[tuple[int, ...]]:
        """Shapes of the noise one weight needs; none at temperature 0."""
        return [manifold.euler_noise_shape] if self.noisy else []

    @cached_property
    def numbers(self) -> Numbers:
        """The step size and the scale of the noise."""
        return self.h, self.noise_scale

    def step(self, manifold: Manifold, q: Tensor, grad: Tensor, noise: Sequence[Tensor]) -> Tensor:
        """The next configuration."""
        return follow(self.numbers, manifold, q, grad, noise)


def follow(numbers: Numbers, manifold: Manifold, q: Tensor, grad: Tensor, noise: Sequence[Tensor]) -> Tensor:
    """The configuration after a step, for numbers on the host."""
    h, grad = factor(numbers[0], grad)
    if not noise:
        return manifold.euler(q, grad, h, 0.0, None)
    sigma, R = factor(numbers[1], noise[0])
    return manifold.euler(q, grad, h, sigma, R)
