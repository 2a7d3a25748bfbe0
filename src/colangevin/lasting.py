"""Tensors that outlast ``torch.inference_mode``: one made inside of it may not be changed outside."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

__all__ = ["lasting"]

P = ParamSpec("P")
R = TypeVar("R")


def lasting(function: Callable[P, R]) -> Callable[P, R]:
    """A function whose tensors are ordinary ones also when it is called in inference mode.

    For state and caches, which later calls change. Elsewhere it costs a look.

    Args:
        function: a function or a method.

    Returns:
        The same function, to be called in its place.
    """

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        if torch.is_inference_mode_enabled():
            with torch.inference_mode(False), torch.no_grad():
                return function(*args, **options)
        return function(*args, **options)

    return call
