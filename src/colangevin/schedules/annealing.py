"""Schedules that go from one factor to another once and stay there."""

import math

from colangevin.errors import ConstraintError
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.schedules.base import Schedule, not_negative, positive

__all__ = ["Annealing", "Constant", "Cosine", "Exponential", "Linear"]


class Constant(Schedule):
    r"""Train first and then sample: one factor for the first steps, then 1.

    With factor 0 the first steps have no noise. A factor above 1 heats them instead.

    Args:
        optimizer: one of this library's.
        factor: of the first steps.
        steps: how many steps have that factor.
        option: `"temperature"` or `"friction"`.

    Examples:
        >>> weight = nn.Parameter(torch.zeros(3))
        >>> optimizer = cl.CoLod([weight], lr=0.1, temperature=1.0)
        >>> schedule = cl.schedules.Constant(optimizer, factor=0.0, steps=2)
        >>> [schedule.factor(step) for step in range(4)]
        [0.0, 0.0, 1.0, 1.0]
    """

    def __init__(
        self, optimizer: ConstrainedOptimizer, factor: float, steps: int, option: str = "temperature"
    ) -> None:
        self.first = factor
        self.steps = steps
        super().__init__(optimizer, option)

    def _check(self) -> None:
        not_negative(self.first, "factor")
        positive(self.steps, "steps")

    def factor(self, step: int) -> float:
        return self.first if step < self.steps else 1.0


class Annealing(Schedule):
    """The base of schedules that go from one factor to another once: subclass it for a curve of your own.

    Use `Linear`, `Cosine` or `Exponential` otherwise. After the last step the factor stays.

    Args:
        optimizer: one of this library's.
        steps: the number of steps after which the last factor is reached.
        end: the last factor.
        start: the first factor.
        option: `"temperature"` or `"friction"`.

    Examples:
        >>> class Halfway(cl.schedules.Annealing):
        ...     def factor(self, step):
        ...         return self.start if step < self.steps / 2 else self.end
        >>> weight = nn.Parameter(torch.zeros(3))
        >>> optimizer = cl.CoLod([weight], lr=0.1, temperature=1.0)
        >>> [Halfway(optimizer, steps=4, end=0.0).factor(step) for step in range(4)]
        [1.0, 1.0, 0.0, 0.0]
    """

    def __init__(
        self,
        optimizer: ConstrainedOptimizer,
        steps: int,
        end: float,
        start: float = 1.0,
        option: str = "temperature",
    ) -> None:
        self.steps = steps
        self.end = end
        self.start = start
        super().__init__(optimizer, option)

    def _check(self) -> None:
        positive(self.steps, "steps")
        not_negative(self.end, "end")
        not_negative(self.start, "start")

    def _progress(self, step: int) -> float:
        """The share of the steps that are done, 1 from the last on."""
        return min(1.0, step / self.steps)


class Linear(Annealing):
    r"""Anneal along a straight line: the simplest way to end a noisy run in a minimum.

    With $x = \min(1, n / \mathrm{steps})$ the factor is $(1 - x)\,\mathrm{start} + x\,\mathrm{end}$. The
    arguments are those of `Annealing`.

    Examples:
        >>> weight = nn.Parameter(torch.zeros(3))
        >>> optimizer = cl.CoLod([weight], lr=0.1, temperature=1.0)
        >>> schedule = cl.schedules.Linear(optimizer, steps=4, end=0.0)
        >>> [schedule.factor(step) for step in range(6)]
        [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """

    def factor(self, step: int) -> float:
        x = self._progress(step)
        return (1 - x) * self.start + x * self.end


class Cosine(Annealing):
    r"""Anneal along half a period of a cosine: slow at both ends, as `CosineAnnealingLR`.

    With $x = (1 - \cos(\pi \min(1, n / \mathrm{steps}))) / 2$ the factor is
    $(1 - x)\,\mathrm{start} + x\,\mathrm{end}$. The arguments are those of `Annealing`.

    Examples:
        >>> weight = nn.Parameter(torch.zeros(3))
        >>> optimizer = cl.CoLod([weight], lr=0.1, temperature=1.0)
        >>> schedule = cl.schedules.Cosine(optimizer, steps=4, end=0.0)
        >>> [round(schedule.factor(step), 3) for step in range(5)]
        [1.0, 0.854, 0.5, 0.146, 0.0]
    """

    def factor(self, step: int) -> float:
        x = (1 - math.cos(math.pi * self._progress(step))) / 2
        return (1 - x) * self.start + x * self.end


class Exponential(Annealing):
    r"""Anneal by the same ratio in every step: for temperatures that fall by orders of magnitude.

    With $x = \min(1, n / \mathrm{steps})$ the factor is $\mathrm{start}^{1 - x}\,\mathrm{end}^x$. The
    arguments are those of `Annealing`, with both factors above 0.

    Examples:
        >>> weight = nn.Parameter(torch.zeros(3))
        >>> optimizer = cl.CoLod([weight], lr=0.1, temperature=1.0)
        >>> schedule = cl.schedules.Exponential(optimizer, steps=2, end=0.01)
        >>> [round(schedule.factor(step), 3) for step in range(4)]
        [1.0, 0.1, 0.01, 0.01]
    """

    def _check(self) -> None:
        super()._check()
        for name, value in (("start", self.start), ("end", self.end)):
            if value == 0:
                raise ConstraintError(f"{name}=0: an exponential never gets there; use Linear or Cosine.")

    def factor(self, step: int) -> float:
        x = self._progress(step)
        return float(self.start ** (1 - x) * self.end**x)
