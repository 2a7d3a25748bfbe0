"""The base of all schedules: multiplies an option of the groups by a factor that depends on the step."""

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

from colangevin.dynamics.rates import largest
from colangevin.errors import ConstraintError
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.optim.unwrap import unwrap

__all__ = ["Schedule"]

_OPTIONS = ("temperature", "friction")
#: what torch keeps in a scheduler, and a state dict of ours does not
_TORCH_S_OWN = ("optimizer", "_step_count", "_is_initial")


class Schedule(LRScheduler, ABC):
    r"""The base of all schedules of temperature or friction: subclass it for a factor of your own.

    It is a `torch.optim.lr_scheduler.LRScheduler`, so that whatever asks for one takes it: Lightning,
    Accelerate and torch's own `SequentialLR` and `ChainedScheduler`. It leaves `lr` alone. In step n every
    group has the temperature $\tau_0 f(n)$. The factor f is the same for all groups, $\tau_0$ is the group's
    own. If the group's temperature is a tensor, with one entry or one for each replica, it is written in
    place, so that a captured CUDA graph follows. Call `step` after the optimizer's step. Schedulers of `lr`
    may run beside.

    Args:
        optimizer: one of this library's, also in a wrapper such as Accelerate's.
        option: `"temperature"` or `"friction"`.

    Raises:
        ConstraintError: when the groups have no such option, or it is 0 in all of them.
        TypeError: when the optimizer is another library's.

    Examples:
        >>> class Waves(cl.schedules.Schedule):
        ...     def factor(self, step):
        ...         return 1.0 if step % 2 else 0.5
        >>> weight = nn.Parameter(torch.zeros(3))
        >>> optimizer = cl.CoLod([weight], lr=0.1, temperature=1.0)
        >>> schedule = Waves(optimizer)
        >>> schedule.get_last_value()
        [0.5]
        >>> isinstance(schedule, torch.optim.lr_scheduler.LRScheduler)
        True
    """

    optimizer: ConstrainedOptimizer
    #: Accelerate adds to it while it accumulates gradients; nothing here reads it
    _step_count: int = 1

    # LRScheduler's constructor is not called. It would wrap optimizer.step to warn of calls in another order,
    # and take a step. A schedule here has no order to enforce: every factor is a function of the step alone.
    def __init__(self, optimizer: ConstrainedOptimizer, option: str = "temperature") -> None:
        optimizer = unwrap(optimizer)
        if option not in _OPTIONS or option not in optimizer.defaults:
            known = " or ".join(repr(name) for name in _OPTIONS if name in optimizer.defaults)
            raise ConstraintError(
                f"option={option!r}: the option of {type(optimizer).__name__} to schedule is {known}."
            )
        self.optimizer = optimizer
        self.option = option
        #: how many steps the schedule has taken
        self.last_step = 0
        if not max(largest(self._initial(group)) for group in optimizer.param_groups):
            raise ConstraintError(
                f"{option}=0 in every group: a schedule multiplies it. Give the optimizer the {option} that "
                "a factor of 1 stands for."
            )
        self._check()
        for group in optimizer.param_groups:  # SequentialLR asks every scheduler for it
            group.setdefault("initial_lr", _copied(group["lr"]))
        self._apply()

    @abstractmethod
    def factor(self, step: int) -> float:
        """What the option is multiplied by in a step. The first step is 0."""

    def _check(self) -> None:
        """Raise `ConstraintError` when a number of the schedule is out of range."""
        return

    def step(self) -> None:  # type: ignore[override]  # torch's argument 'epoch' is deprecated
        """Go to the next step."""
        self._update_lr()

    def _update_lr(self, epoch: int | None = None) -> None:
        """Go to the next step, or to a given one, which SequentialLR does at its milestones."""
        self.last_step = self.last_step + 1 if epoch is None else epoch
        self._apply()

    # ---- what a scheduler of torch has besides ---------------------------------------------------

    @property
    def last_epoch(self) -> int:
        """What torch calls `last_step`. It is -1 while SequentialLR has not come to this schedule."""
        return self.last_step

    @last_epoch.setter
    def last_epoch(self, step: int) -> None:
        self.last_step = step

    @property
    def base_lrs(self) -> list[float | Tensor]:  # type: ignore[override]
        """The learning rate that every group began with."""
        return [_copied(group.get("initial_lr", group["lr"])) for group in self.optimizer.param_groups]

    def get_lr(self) -> list[float | Tensor]:
        """The learning rate of every group, which this schedule leaves alone."""
        return [_copied(group["lr"]) for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float | Tensor]:
        """The learning rate of every group, which this schedule leaves alone."""
        return self.get_lr()

    # ---- the option and the state ----------------------------------------------------------------

    def get_last_value(self) -> list[float | Tensor]:
        """The option of every group as the optimizer's next step will use it. Tensors are copies."""
        return [_copied(group[self.option]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, which has a state dict of its own."""
        return {key: value for key, value in vars(self).items() if key not in _TORCH_S_OWN}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where a schedule of the same kind was. Load the optimizer's state first.

        Args:
            state_dict: what `state_dict` returned.

        Raises:
            ConstraintError: when the state dict is that of another kind of schedule or of another option.
        """
        mine = self.state_dict()
        if state_dict.keys() != mine.keys() or state_dict["option"] != self.option:
            raise ConstraintError(
                f"state dict: it has {_words(state_dict)}, a {type(self).__name__} has {_words(mine)}. "
                "Build the schedule as the saved one was built, then load."
            )
        vars(self).update(state_dict)
        self._apply()

    def _initial(self, group: dict[str, Any]) -> float | Tensor:
        """The option at a factor of 1. The group keeps it under `initial_...`, as torch does for `lr`."""
        initial: float | Tensor = group.setdefault(f"initial_{self.option}", _copied(group[self.option]))
        return initial

    def _apply(self) -> None:
        if self.last_step < 0:
            return
        factor = self.factor(self.last_step)
        for group in self.optimizer.param_groups:
            value = self._initial(group) * factor
            if isinstance(group[self.option], Tensor):
                group[self.option].copy_(value)
            else:
                group[self.option] = value


def _copied(value: float | Tensor) -> float | Tensor:
    return value.clone() if isinstance(value, Tensor) else value


def _words(state: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in state.items())


def positive(steps: object, name: str) -> None:
    """Raise unless a number of steps is a whole number, at least 1.

    Args:
        steps: the number.
        name: of the argument.

    Raises:
        ConstraintError: naming the argument and its value.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ConstraintError(f"{name}={steps!r}: must be a whole number of steps, at least 1.")


def not_negative(factor: object, name: str) -> None:
    """Raise unless a factor is a finite number, at least 0.

    Args:
        factor: the factor.
        name: of the argument.

    Raises:
        ConstraintError: naming the argument and its value.
    """
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 <= factor < float("inf"):
        raise ConstraintError(f"{name}={factor!r}: must be a finite factor, at least 0.")
