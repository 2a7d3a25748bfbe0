"""Schedules that go from one factor to another once and stay there."""

import math

from colangevin.errors import ConstraintError
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.schedules.base import Schedule, not_negative, positive

__all__ = ["Annealing", "Constant", "Cosine", "Exponential", "Linear"]


class Constant(Schedule):
    """One factor for the first steps, then 1. With factor 0, train first and then sample.

    Args:
        optimizer: one of this library's.
        factor: of the first steps.
        steps: how many steps have that factor.
        option: ``"temperature"`` or ``"friction"``.
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
    """From one factor to another in a number of steps, along the curve that a subclass gives.

    Args:
        optimizer: one of this library's.
        steps: the number of steps after which the last factor is reached.
        end: the last factor.
        start: the first factor.
        option: ``"temperature"`` or ``"friction"``.
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
    """Along a straight line; the arguments are those of :class:`Annealing`."""

    def factor(self, step: int) -> float:
        x = self._progress(step)
        return (1 - x) * self.start + x * self.end


class Cosine(Annealing):
    """Along half a period of a cosine; the arguments are those of :class:`Annealing`."""

    def factor(self, step: int) -> float:
        x = (1 - math.cos(math.pi * self._progress(step))) / 2
        return (1 - x) * self.start + x * self.end


class Exponential(Annealing):
    """By the same ratio in every step; arguments as in :class:`Annealing`, with both factors above 0."""

    def _check(self) -> None:
        super()._check()
        for name, value in (("start", self.start), ("end", self.end)):
            if value == 0:
                raise ConstraintError(f"{name}=0: an exponential never gets there; use Linear or Cosine.")

    def factor(self, step: int) -> float:
        x = self._progress(step)
        return float(self.start ** (1 - x) * self.end**x)
