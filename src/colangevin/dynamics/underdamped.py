"""One step of constrained underdamped Langevin dynamics (Eq. 12)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from colangevin.constraints.manifold import Manifold
from colangevin.dynamics.letters import drift, kick, kick_drift, ornstein_uhlenbeck
from colangevin.dynamics.rates import Rates, Scalar, largest
from colangevin.dynamics.splitting import Splitting

__all__ = ["Move", "Underdamped", "follow", "longest"]

#: a letter, its time (or O's decay), and O's noise scale
Move = tuple[str, Scalar, Scalar]


@dataclass(frozen=True)
class Underdamped:
    """The letters of a splitting, one after the other."""

    splitting: Splitting
    rates: Rates

    #: whether a step has a momentum
    momentum = True

    @cached_property
    def segments(self) -> int:
        """How many gradients a step needs."""
        return len(self.splitting.segments)

    @cached_property
    def noisy(self) -> bool:
        """Whether there is noise, or may be: a temperature on the device is not looked at."""
        return self.rates.noisy

    @cached_property
    def varies(self) -> bool:
        """Whether a copy has numbers of its own."""
        return self.rates.varies

    @cached_property
    def on_host(self) -> "Underdamped":
        """The same with floats for numbers that lie on a device."""
        return Underdamped(self.splitting, self.rates.on_host())

    @cached_property
    def largest_kick(self) -> float:
        """The largest number that multiplies a gradient."""
        return largest(self.rates.kick)

    @cached_property
    def noise_scale(self) -> Scalar:
        """What multiplies the noise, were there one O."""
        return self.rates.ornstein_uhlenbeck(1)[1]

    def noise_shapes(self, manifold: Manifold, segment: int = 0) -> list[tuple[int, ...]]:
        """Shapes of the noise one weight needs in a segment, one for each O; none at temperature 0."""
        if not self.noisy:
            return []
        count = sum(letter == "O" for letter, _ in self.splitting.segments[segment])
        return [manifold.configuration_shape] * count

    @cached_property
    def moves(self) -> list[list[Move]]:
        """The letters of every segment with their numbers."""
        return [[self._move(*letter) for letter in segment] for segment in self.splitting.segments]

    def _move(self, letter: str, share: float) -> Move:
        """The time of A and of B; decay and noise scale of O."""
        if letter == "O":
            return letter, *self.rates.ornstein_uhlenbeck(share)
        return letter, share * (self.rates.drift if letter == "A" else self.rates.kick), 0.0

    def step(
        self,
        manifold: Manifold,
        q: Tensor,
        p: Tensor,
        grad: Tensor,
        noise: Sequence[Tensor],
        segment: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """The next configuration and momentum, through one segment of the splitting."""
        return follow(self.moves[segment], manifold, q, p, grad, noise)


def follow(
    moves: Sequence[Move], manifold: Manifold, q: Tensor, p: Tensor, grad: Tensor, noise: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Configuration and momentum after the letters of a segment, for numbers on the host."""
    draws, left = iter(noise), list(moves)
    while left:
        letter, number, scale = left.pop(0)
        if letter == "B" and left and left[0][0] == "A":
            q, p = kick_drift(manifold, q, p, grad, number, left.pop(0)[1])
        elif letter == "A":
            q, p = drift(manifold, q, p, number)
        elif letter == "B":
            p = kick(manifold, q, p, grad, number)
        else:
            p = ornstein_uhlenbeck(manifold, q, p, number, scale, next(draws, None))
    return q, p


def longest(dynamics: Iterable[object]) -> str:
    """The splitting that needs the most gradients, in its letters."""
    splittings = [each.splitting for each in dynamics if isinstance(each, Underdamped)]
    return max(splittings, key=lambda splitting: len(splitting.segments)).text
