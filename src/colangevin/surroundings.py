"""What a step is kept apart from: the caller's autocast, inference mode and compiler.

Each decorator costs a look at torch's state when there is nothing to keep apart from.
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import torch
from torch._compile import _disable_dynamo

__all__ = ["full_precision", "lasting", "untraced"]

P = ParamSpec("P")
R = TypeVar("R")
Function = TypeVar("Function", bound=Callable[..., Any])

_DEVICES = ("cpu", "cuda", "mps", "xpu")


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """A function that runs with autocast switched off: it would compute products of float32 in bfloat16.

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


def lasting(function: Callable[P, R]) -> Callable[P, R]:
    """A function whose tensors are ordinary ones also when it is called in inference mode.

    A tensor made in inference mode may not be changed outside of it. State and caches are changed later.

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


def untraced(function: Function) -> Function:
    """A function that ``torch.compile`` calls instead of tracing it.

    Args:
        function: a function or a method.

    Returns:
        The same function, to be called in its place.
    """
    # As torch.optim does it. torch.compiler.disable would import the compiler at once, which takes as long as
    # importing torch does.
    disabled = _disable_dynamo(function)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        chosen = disabled if torch.compiler.is_compiling() else function
        return chosen(*args, **options)

    return cast(Function, call)
