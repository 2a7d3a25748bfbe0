r"""Steps whose noise is that of two steps of half the length, for a chain beside one that takes those.

Over a time 2h the noise of two steps adds up. An overdamped step of length 2h takes
:math:`\sqrt{4\tau h}\,R`, and two of length h take :math:`\sqrt{2\tau h}\,(R_1 + R_2)`, so
:math:`R = (R_1 + R_2)/\sqrt 2`. Two letters O of decay c make

.. math:: c(c\,p + d R_1) + d R_2 = c^2 p + d\,(c R_1 + R_2), \qquad d = \sqrt{\tau(1 - c^2)},

which is one O of decay :math:`c^2` with :math:`R = (c R_1 + R_2)/\sqrt{1 + c^2}`.
"""

from collections.abc import Sequence

from torch import Tensor

from colangevin.dynamics import Dynamics, Overdamped, Underdamped
from colangevin.dynamics.rates import Scalar, over_copies, sqrt
from colangevin.step.entry import Entry
from colangevin.step.mover import Mover
from colangevin.step.plain import Plain, noise_of
from colangevin.step.plan import Plan

__all__ = ["TiedPlan"]


class TiedPlan(Plan):
    """Every parameter alone, in plain torch, by the noise of two steps of half the length."""

    def paths(self, entries: list[Entry], dynamics: Sequence[Dynamics]) -> list[Mover]:
        return [_Tied([entry]) for entry in entries]


class _Tied(Plain):
    def noise(self, steps: Sequence[int], dynamics: Overdamped | Underdamped, q: Tensor) -> list[Tensor]:
        (entry,), (step,) = self.entries, steps
        counts = [len(dynamics.noise_shapes(entry.manifold, each)) for each in range(dynamics.segments)]
        draws = [(segment, draw) for segment, count in enumerate(counts) for draw in range(count)]

        def half(number: int) -> Tensor:
            """A draw of the two shorter steps, counted through both."""
            later, place = divmod(number, len(draws))
            segment, draw = draws[place]
            return noise_of(self.entries, [2 * step + later], dynamics, segment, q)[draw]

        first = sum(counts[: self._segment])
        mine = range(first, first + counts[self._segment])
        decay = _decay_of_a_half(dynamics)
        return [_sum(decay, half(2 * number), half(2 * number + 1)) for number in mine]


def _decay_of_a_half(dynamics: Overdamped | Underdamped) -> Scalar:
    """The decay c of the noise between the halves of one draw."""
    if isinstance(dynamics, Overdamped):
        return 1.0
    letters = [move for moves in dynamics.moves for move in moves if move[0] == "O"]
    return sqrt(letters[0][1])  # all O take the same share of a step


def _sum(decay: Scalar, first: Tensor, second: Tensor) -> Tensor:
    """A standard normal, of the noise of the first half and of the second."""
    c = over_copies(decay, first) if isinstance(decay, Tensor) else decay
    return (c * first + second) / sqrt(1 + c * c)
