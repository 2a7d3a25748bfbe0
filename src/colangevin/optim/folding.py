"""Long lists of names made short: names that differ in numbers only become one."""

import re
from collections.abc import Hashable, Sequence

__all__ = ["fold", "glob", "pattern"]

# Two names alike take two lines; more take one.
_FEWEST = 3
# So many numbers that are no range are listed; of more, the first two and the last.
_LISTED = 3
# Between the parts of a name, and between the names of parameters that are held together.
_BETWEEN = re.compile(r"(\.|, )")


def fold(names: Sequence[str], kinds: Sequence[Hashable]) -> list[list[int]]:
    """Which names to show as one.

    Args:
        names: dotted names.
        kinds: of each name, what has to be equal for two names to become one.

    Returns:
        The positions of the names of every line, lines in the order of their first names.

    >>> fold(["a.0.w", "a.1.w", "b", "a.2.w"], [0, 0, 0, 0])
    [[0, 1, 3], [2]]
    """
    alike: dict[Hashable, list[int]] = {}
    for position, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        shape = tuple(None if part.isdecimal() else part for part in _BETWEEN.split(name))
        alike.setdefault((shape, kind), []).append(position)
    lines = []
    for positions in alike.values():
        lines += [positions] if len(positions) >= _FEWEST else [[position] for position in positions]
    return sorted(lines)


def pattern(names: Sequence[str]) -> str:
    """One name for names that differ in numbers only.

    Args:
        names: of one line, as `fold` puts them together.

    Returns:
        The name, with a range or a list in braces for numbers that differ.

    >>> pattern(["layers.0.weight", "layers.1.weight", "layers.2.weight"])
    'layers.{0..2}.weight'
    """
    return "".join(_part(values) for values in _columns(names))


def glob(names: Sequence[str]) -> str:
    """A glob that fits all of the names.

    Args:
        names: of one line, as `fold` puts them together.

    Returns:
        The glob, which may fit other names too.

    >>> glob(["layers.0.weight", "layers.1.weight", "layers.2.weight"])
    'layers.*.weight'
    """
    return "".join(values[0] if len(set(values)) == 1 else "*" for values in _columns(names))


def _columns(names: Sequence[str]) -> list[tuple[str, ...]]:
    return list(zip(*map(_BETWEEN.split, names), strict=True))


def _part(values: Sequence[str]) -> str:
    """One part of a pattern, from this part of every name."""
    if len(set(values)) == 1:
        return values[0]
    numbers = sorted({int(value) for value in values})
    first, last = numbers[0], numbers[-1]
    if len(numbers) == last - first + 1:
        return f"{{{first}..{last}}}"
    if len(numbers) <= _LISTED:
        return "{" + ",".join(map(str, numbers)) + "}"
    return f"{{{first},{numbers[1]},..,{last}}}"
