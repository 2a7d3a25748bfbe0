"""Torch's wrapper around ``step`` of every optimizer, which calls hooks and names the step for profilers.

To name a step takes longer than a step of a small model does, so the wrapper is left out where nobody looks.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from torch.autograd import profiler
from torch.optim import Optimizer
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

__all__ = ["wrapped_if_watched"]

P = ParamSpec("P")
R = TypeVar("R")


def wrapped_if_watched(func: Callable[P, R]) -> Callable[P, R]:
    """A ``step`` that takes torch's wrapper where a profiler runs or somebody has registered a hook.

    Args:
        func: the method ``step`` of an optimizer.

    Returns:
        The method to be called in its place.
    """
    wrapped = Optimizer.profile_hook_step(func)

    @functools.wraps(func)
    def call(*args: P.args, **options: P.kwargs) -> R:
        optimizer = cast(Optimizer, args[0])
        hooks = (
            optimizer._optimizer_step_pre_hooks
            or optimizer._optimizer_step_post_hooks
            or _global_optimizer_pre_hooks
            or _global_optimizer_post_hooks
        )
        watched = hooks or profiler._is_profiler_enabled
        return wrapped(*args, **options) if watched else func(*args, **options)

    return call
