"""The base of all schedules: multiplies an option of the groups by a factor that depends on the step."""

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from colangevin.dynamics.rates import largest
from colangevin.errors import ConstraintError
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.optim.unwrap import unwrap

__all__ = ["Schedule"]

_OPTIONS = ("temperature", "friction")


class Schedule(ABC):
    r"""A schedule of the temperature or the friction, as ``torch.optim.lr_scheduler`` has them for ``lr``.

    In step n every group has the temperature :math:`\tau_0 f(n)`. The factor f is the same for all groups,
    :math:`\tau_0` is the group's own. If the group's temperature is a tensor, with one entry or one for each
    replica, it is written in place, so that a captured CUDA graph follows. Call :meth:`step` after the
    optimizer's step. Schedulers of ``lr`` may run beside.

    Args:
        optimizer: one of this library's, also in a wrapper such as Accelerate's.
        option: ``"temperature"`` or ``"friction"``.

    Raises:
        ConstraintError: when the groups have no such option, or it is 0 in all of them.
        TypeError: when the optimizer is another library's.
    """

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
        self._apply()

    @abstractmethod
    def factor(self, step: int) -> float:
        """What the option is multiplied by in a step. The first step is 0."""

    def _check(self) -> None:
        """Raise :class:`ConstraintError` when a number of the schedule is out of range."""
        return

    def step(self) -> None:
        """Go to the next step."""
        self.last_step += 1
        self._apply()

    def get_last_value(self) -> list[float | Tensor]:
        """The option of every group as the optimizer's next step will use it. Tensors are copies."""
        values = [group[self.option] for group in self.optimizer.param_groups]
        return [value.clone() if isinstance(value, Tensor) else value for value in values]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, which has a state dict of its own."""
        return {key: value for key, value in vars(self).items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where a schedule of the same kind was. Load the optimizer's state first.

        Args:
            state_dict: what :meth:`state_dict` returned.

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
        """The option at a factor of 1. The group keeps it under ``initial_...``, as torch does for ``lr``."""
        key, value = f"initial_{self.option}", group[self.option]
        initial: float | Tensor = group.setdefault(key, value.clone() if isinstance(value, Tensor) else value)
        return initial

    def _apply(self) -> None:
        factor = self.factor(self.last_step)
        for group in self.optimizer.param_groups:
            value = self._initial(group) * factor
            if isinstance(group[self.option], Tensor):
                group[self.option].copy_(value)
            else:
                group[self.option] = value


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
