"""Functions that ``torch.compile`` calls instead of looking inside."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

__all__ = ["untraced"]

Function = TypeVar("Function", bound=Callable[..., Any])


def untraced(function: Function) -> Function:
    """A function that a compiled step leaves as it is; otherwise it costs what it costs without this."""
    disabled = torch.compiler.disable(function)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        chosen = disabled if torch.compiler.is_compiling() else function
        return chosen(*args, **options)

    return cast(Function, call)
