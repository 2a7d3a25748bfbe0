"""One step of constrained underdamped Langevin dynamics (Eq. 12)."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from colangevin.constraints.base import Constraint
from colangevin.constraints.elementwise import Elementwise
from colangevin.integrators.letters import drift, kick, kick_drift, ornstein_uhlenbeck, ornstein_uhlenbeck_
from colangevin.integrators.rates import Rates, Scalar, host
from colangevin.integrators.splitting import Splitting

__all__ = ["Move", "Underdamped", "follow", "follow_"]

#: a letter, its time (or O's decay), and O's noise scale
Move = tuple[str, Scalar, Scalar]


@dataclass(frozen=True)
class Underdamped:
    """The letters of a splitting, one after the other."""

    splitting: Splitting
    rates: Rates

    @property
    def segments(self) -> int:
        """How many gradients a step needs."""
        return len(self.splitting.segments)

    @property
    def kick(self) -> Scalar:
        """What multiplies the gradient."""
        return self.rates.kick

    @property
    def noisy(self) -> bool:
        """Whether there is noise, or may be: a temperature on the device is not looked at."""
        return self.rates.noisy

    @property
    def varies(self) -> bool:
        """Whether a copy has numbers of its own."""
        return self.rates.varies

    def on_host(self) -> "Underdamped":
        """The same with floats for numbers that lie on a device."""
        return Underdamped(self.splitting, self.rates.on_host())

    @property
    def noise_scale(self) -> Scalar:
        """What multiplies the noise, were there one O."""
        return self.rates.ornstein_uhlenbeck(1)[1]

    def noise_shapes(
        self, constraint: Constraint, shape: tuple[int, ...], segment: int
    ) -> list[tuple[int, ...]]:
        """Shapes of the noise one weight needs in a segment, one for each O; none at temperature 0."""
        if not self.noisy:
            return []
        count = sum(letter == "O" for letter, _ in self.splitting.segments[segment])
        return [constraint.configuration_shape(shape)] * count

    def moves(self, segment: int = 0) -> list[Move]:
        """The letters of a segment with their numbers."""
        return [(letter, *self._numbers(letter, share)) for letter, share in self.splitting.segments[segment]]

    def _numbers(self, letter: str, share: float) -> tuple[Scalar, Scalar]:
        """The time of A and of B; decay and noise scale of O."""
        if letter == "O":
            decay, scale = self.rates.ornstein_uhlenbeck(share)
            return host(decay), host(scale)
        return share * host(self.rates.drift if letter == "A" else self.rates.kick), 0.0

    def step(
        self,
        constraint: Constraint,
        q: Tensor,
        p: Tensor,
        grad: Tensor,
        noise: Sequence[Tensor],
        segment: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """The next configuration and momentum, through one segment of the splitting."""
        return follow(self.moves(segment), constraint, q, p, grad, noise)


def follow(
    moves: Sequence[Move], constraint: Constraint, q: Tensor, p: Tensor, grad: Tensor, noise: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Configuration and momentum after the letters of a segment."""
    draws, left = iter(noise), list(moves)
    while left:
        letter, number, scale = left.pop(0)
        if letter == "B" and left and left[0][0] == "A":
            q, p = kick_drift(constraint, q, p, grad, number, left.pop(0)[1])
        elif letter == "A":
            q, p = drift(constraint, q, p, number)
        elif letter == "B":
            p = kick(constraint, q, p, grad, number)
        else:
            p = ornstein_uhlenbeck(constraint, q, p, number, scale, next(draws, None))
    return q, p


def follow_(
    moves: Sequence[Move],
    constraint: Elementwise,
    q: Tensor,
    p: Tensor,
    grad: Tensor,
    noise: Sequence[Tensor],
) -> None:
    """:func:`follow` in place, for numbers on the host."""
    draws = iter(noise)
    for letter, number, scale in moves:
        if letter == "A":
            constraint.drift_(q, p, float(number))
        elif letter == "B":
            constraint.kick_(q, p, grad, float(number))
        else:
            ornstein_uhlenbeck_(constraint, p, float(number), float(scale), next(draws, None))
