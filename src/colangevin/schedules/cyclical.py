"""A schedule of cycles that explore first and then sample."""

from colangevin.errors import ConstraintError
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.schedules.base import Schedule, not_negative, positive

__all__ = ["Cyclical"]


class Cyclical(Schedule):
    """Sample several modes in one run: cycles that explore first and then sample at the full temperature.

    With `torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, cycle)` beside it, this is the
    cyclical method of Zhang et al. 2020, "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning".
    Collect between the optimizer's step and the schedule's, while `sampling` is true.

    Args:
        optimizer: one of this library's.
        cycle: steps in a cycle.
        explore: share of a cycle that explores.
        factor: of the temperature while exploring. With 0 the weights descend, above 1 they are heated.
        settle: steps at the full temperature before `sampling` becomes true.
        option: `"temperature"` or `"friction"`.

    Examples:
        >>> model = nn.Linear(2, 1)
        >>> optimizer = cl.CoLod(model.named_parameters(), lr=0.1, temperature=1.0)
        >>> schedule, samples = cl.schedules.Cyclical(optimizer, cycle=5), cl.Samples(model)
        >>> for _ in range(10):
        ...     optimizer.step()
        ...     stored = schedule.sampling and samples.collect()
        ...     schedule.step()
        >>> len(samples)
        2
    """

    def __init__(
        self,
        optimizer: ConstrainedOptimizer,
        cycle: int,
        explore: float = 0.8,
        factor: float = 0.0,
        settle: int = 0,
        option: str = "temperature",
    ) -> None:
        self.cycle = cycle
        self.explore = explore
        self.exploring_factor = factor
        self.settle = settle
        super().__init__(optimizer, option)

    def _check(self) -> None:
        positive(self.cycle, "cycle")
        not_negative(self.exploring_factor, "factor")
        if isinstance(self.explore, bool) or not 0 <= self.explore < 1:
            raise ConstraintError(f"explore={self.explore!r}: must be a share, at least 0 and below 1.")
        if isinstance(self.settle, bool) or not isinstance(self.settle, int) or self.settle < 0:
            raise ConstraintError(f"settle={self.settle!r}: must be a whole number of steps, at least 0.")
        if self._exploring + self.settle >= self.cycle:
            raise ConstraintError(
                f"cycle={self.cycle}: {self._exploring} steps of exploring and settle={self.settle} leave no "
                "step to sample. Lengthen the cycle, or reduce explore or settle."
            )

    @property
    def _exploring(self) -> int:
        """Steps of a cycle that explore."""
        return round(self.explore * self.cycle)

    def factor(self, step: int) -> float:
        return self.exploring_factor if step % self.cycle < self._exploring else 1.0

    @property
    def sampling(self) -> bool:
        """Whether to collect after the optimizer's step. Read it before `step` is called."""
        return self.last_step % self.cycle >= self._exploring + self.settle
