"""Full precision inside ``torch.autocast``, which would compute products of float32 weights in bfloat16."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

__all__ = ["full_precision"]

P = ParamSpec("P")
R = TypeVar("R")

_DEVICES = ("cpu", "cuda", "mps", "xpu")


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """A function that runs with autocast switched off, on every device; without autocast it costs a look.

    Args:
        function: a function or a method.

    Returns:
        The same function, to be called in its place.
    """

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        for device in _DEVICES:
            if torch.is_autocast_enabled(device):
                with torch.autocast(device, enabled=False):
                    return call(*args, **options)  # which looks at the other devices
        return function(*args, **options)

    return call
