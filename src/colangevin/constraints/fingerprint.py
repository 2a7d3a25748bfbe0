"""What of a function can be compared between two processes: its code, and the plain values it uses."""

import functools
import hashlib
import sys
from collections.abc import Callable
from dis import get_instructions
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor

__all__ = ["fingerprint", "not_compared"]

_PYTHON = str(sys.implementation.cache_tag)


def fingerprint(function: Callable[..., Any]) -> dict[str, str]:
    """A digest of a function under the name of the interpreter, since versions of Python differ in bytecode.

    It covers bytecode and constants, defaults, and numbers, strings, tensors and functions that it takes from
    its closure or its module. Lists, dictionaries and other objects count by their class alone, functions
    written in C by their name: what they do cannot be compared.

    Args:
        function: any callable.

    Returns:
        Interpreter to digest.
    """
    words = _words(function, frozenset(), set())
    return {_PYTHON: hashlib.sha256(words.encode()).hexdigest()[:16]}


def not_compared(function: Callable[..., Any], saved: dict[str, str]) -> str:
    """What a comparison with a fingerprint cannot see, in words.

    Args:
        function: any callable.
        saved: what :func:`fingerprint` gave for the function that it is compared with.

    Returns:
        The words, or nothing if everything is compared.
    """
    if _PYTHON not in saved:
        others = ", ".join(sorted(saved)) or "a version that stored no fingerprint"
        return f"its code, which was saved by {others} and is run by {_PYTHON}"
    unseen: set[str] = set()
    _words(function, frozenset(), unseen)
    return f"what is inside of its {', '.join(sorted(unseen))}" if unseen else ""


def _words(value: object, seen: frozenset[int], unseen: set[str]) -> str:
    """A value in words that are the same in every process; recursion ends at what has been ``seen``.

    Args:
        value: anything.
        seen: what is being put into words already.
        unseen: takes the classes of objects whose contents the words leave out.

    Returns:
        The words.
    """
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return f"{type(value).__name__} {value!r}"
    if id(value) in seen:
        return "seen"
    seen |= {id(value)}
    if isinstance(value, Tensor):
        return f"tensor {tuple(value.shape)} {value.dtype} {_numbers(value)}"
    if isinstance(value, tuple):
        return f"({', '.join(_words(each, seen, unseen) for each in value)})"
    if isinstance(value, frozenset):
        return f"set({', '.join(sorted(_words(each, seen, unseen) for each in value))})"
    if isinstance(value, functools.partial):
        parts = (value.func, value.args, *sorted(value.keywords.items()))
        return f"partial {_words(parts, seen, unseen)}"
    if isinstance(value, MethodType):
        return f"method {_words(value.__func__, seen, unseen)} {_words(value.__self__, seen, unseen)}"
    if isinstance(value, FunctionType):
        return _function_words(value, seen, unseen)
    if isinstance(value, CodeType):
        return f"code {value.co_code.hex()} {value.co_names} {_words(value.co_consts, seen, unseen)}"
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    if not isinstance(value, ModuleType) and not hasattr(value, "__qualname__"):
        unseen.add(name)
    return f"{getattr(value, '__module__', None)}.{name}"


def _function_words(function: FunctionType, seen: frozenset[int], unseen: set[str]) -> str:
    if function.__module__.partition(".")[0] == "torch":
        unseen = set()  # its own objects are as they are in every process
    code = function.__code__
    constants = code.co_consts
    if constants and function.__doc__ is not None and constants[0] == function.__doc__:
        constants = constants[1:]  # words for the reader
    globals_used = sorted({each.argval for each in get_instructions(code) if each.opname == "LOAD_GLOBAL"})
    used = [function.__globals__.get(name) for name in globals_used]
    cells = [_content(cell) for cell in function.__closure__ or ()]
    defaults = (function.__defaults__, *sorted((function.__kwdefaults__ or {}).items()))
    parts = (constants, defaults, tuple(used), tuple(cells))
    return f"function {code.co_code.hex()} {code.co_names} {_words(parts, seen, unseen)}"


def _content(cell: Any) -> object:
    """What a closure holds; nothing while it is being made."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _numbers(tensor: Tensor) -> str:
    """A digest of a tensor's bytes."""
    if tensor.is_meta or tensor.layout is not torch.strided:
        return ""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(bytes(flat.view(torch.uint8).tolist())).hexdigest() if flat.numel() else ""
