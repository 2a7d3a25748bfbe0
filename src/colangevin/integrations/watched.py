"""One optimizer of a training: what is recorded of it, and what happens after each of its steps."""

from collections.abc import Sequence
from typing import Any

from colangevin.diagnostics import Monitor
from colangevin.errors import ConstraintError
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.sampling import Samples
from colangevin.schedules import Cyclical, Schedule

__all__ = ["Watched"]


class Watched:
    """Counts the steps of an optimizer, and takes those of its schedules and samples after each.

    Args:
        optimizer: one of this library's.
        schedules: of its options.
        samples: where to collect after a step; None for none.
        prefix: what the names of its numbers begin with.
    """

    def __init__(
        self,
        optimizer: ConstrainedOptimizer,
        schedules: Sequence[Schedule],
        samples: Samples | None,
        prefix: str,
    ) -> None:
        self.optimizer = optimizer
        self.monitor = Monitor(optimizer)
        self.schedules = schedules
        self._samples = samples
        self._prefix = prefix
        #: how many steps the optimizer has taken
        self._steps = 0
        #: the steps that had been taken at the last record
        self._recorded = -1
        self._new = False
        # A hook sees exactly the steps that are taken: not those that a gradient scaler skips.
        self._handle = optimizer.register_step_post_hook(self._after_step)

    def record(self, every: int) -> None:
        """Record the run before a step, if the step is a multiple of `every`."""
        # A splitting with several gradients comes here several times a step.
        if (self._steps + 1) % every == 0 and self._recorded != self._steps:
            self._recorded = self._steps
            self._new = self.monitor.record()

    def news(self) -> dict[str, float]:
        """The numbers of the last record, if nobody has asked for them yet."""
        if not self._new:
            return {}
        self._new = False
        return {f"{self._prefix}{name}": value for name, value in self.monitor.latest().items()}

    def _after_step(self, *_: object) -> None:
        self._steps += 1
        exploring = any(isinstance(each, Cyclical) and not each.sampling for each in self.schedules)
        if self._samples is not None and not exploring:
            self._samples.collect()
        for schedule in self.schedules:
            schedule.step()

    def release(self) -> None:
        """Do nothing after steps any more."""
        self._handle.remove()

    def state_dict(self) -> dict[str, Any]:
        """The number of steps, and the schedules."""
        return {"steps": self._steps, "schedules": [each.state_dict() for each in self.schedules]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where `state_dict` was called. Load the optimizer's state first.

        Args:
            state_dict: what `state_dict` returned.

        Raises:
            ConstraintError: when there are other schedules.
        """
        saved = state_dict["schedules"]
        if len(saved) != len(self.schedules):
            raise ConstraintError(
                f"checkpoint: it has {len(saved)} schedules of this optimizer, there are now "
                f"{len(self.schedules)}. Make the schedules of the saved training."
            )
        for schedule, each in zip(self.schedules, saved, strict=True):
            schedule.load_state_dict(each)
        self._steps = state_dict["steps"]
