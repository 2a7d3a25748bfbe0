"""Dataclasses from JSON that anybody may have written: the type of every value is checked."""

import dataclasses
import types
import typing
import unicodedata
from typing import Any

__all__ = ["decode", "quoted"]

# Control characters, directions of writing, half characters and line ends: no XML, no terminal and no line of
# Markdown takes them as text.
_UNWRITABLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def decode(kind: Any, value: Any, where: str) -> Any:
    """A value of JSON as a value of a type.

    Args:
        kind: a dataclass, or the type of one of its fields: str, bool, int, float, None, ``Literal``,
            ``tuple[X, ...]``, ``tuple[X, Y]``, ``dict[str, X]``, ``Any``, or a union of these.
        value: what JSON said.
        where: what to call it in an error.

    Returns:
        The value; lists have become tuples.

    Raises:
        ValueError: when the value is not of that type, with where and why.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, where)
    if origin is types.UnionType:
        return _union(arguments, value, where)
    if origin is tuple:
        return _tuple(arguments, value, where)
    if origin is dict:
        _expect(isinstance(value, dict), "an object", value, where)
        return {
            _text(key, where): decode(arguments[1], each, f"{where}.{key}") for key, each in value.items()
        }
    if origin is typing.Literal:
        _expect(value in arguments, f"one of {', '.join(map(repr, arguments))}", value, where)
        return value
    if kind is str:
        return _text(value, where)
    if kind is float:
        # JSON has integers of any size; one too large for a float would overflow later
        right = type(value) is float or (type(value) is int and abs(value) < 2**63)
        _expect(right, "a number", value, where)
        return value
    # a bool is an int in Python, not in JSON
    _expect(type(value) is kind, f"of type {kind.__name__}", value, where)
    return value


def quoted(value: object) -> str:
    """What an error says of a value: in ASCII and short, whatever it is."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:60] + "..."


def _expect(right: bool, what: str, value: object, where: str) -> None:
    if not right:
        raise ValueError(f"{where} is {quoted(value)}; it must be {what}")


def _text(value: Any, where: str) -> str:
    _expect(isinstance(value, str), "text", value, where)
    plain = not any(unicodedata.category(c) in _UNWRITABLE for c in value)
    _expect(plain, "text without control characters", value, where)
    return str(value)


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), "an object", value, where)
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if unknown := value.keys() - fields.keys():
        raise ValueError(f"{where} has a field {quoted(min(unknown))}, which this version does not know")
    for name, field in fields.items():
        if name not in value and field.default is field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{where} has no {name}")
    given = {name: decode(hints[name], each, f"{where}.{name}") for name, each in value.items()}
    try:
        return kind(**given)
    except ValueError as error:  # every field has the right type, and together they make no sense
        raise ValueError(f"{where}: {error}") from error


def _union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    """The first that fits."""
    if value is None and types.NoneType in kinds:
        return None
    reasons = []
    for kind in kinds:
        if kind is not types.NoneType:
            try:
                return decode(kind, value, where)
            except ValueError as error:
                reasons.append(str(error))
    raise ValueError(" and ".join(dict.fromkeys(reasons)))


def _tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    _expect(isinstance(value, list), "a list", value, where)
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    _expect(len(value) == len(kinds), f"a list of {len(kinds)}", value, where)
    each = enumerate(zip(kinds, value, strict=True))
    return tuple(decode(kind, entry, f"{where}[{number}]") for number, (kind, entry) in each)
