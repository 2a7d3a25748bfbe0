"""The axis on which the parts of an experiment stand: a scale of numbers where they are one, else names."""

import re
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Scale", "listed", "scale"]

_NUMBERED = re.compile(r"(\d[\d,]*) (\D+)")
# Two points make no curve.
_FEWEST = 3
# A longer list of names is not read.
_MOST_NAMES = 3


class Scale(NamedTuple):
    """Parts that differ in one number.

    Attributes:
        label: what the number counts.
        numbers: of the parts, in their order.
    """

    label: str
    numbers: list[int]


def scale(names: Sequence[str]) -> Scale | None:
    """The scale on which parts stand, as "2 hidden layers" and "8 hidden layers" do.

    Args:
        names: of the parts.

    Returns:
        Their numbers and what they count; None for categories, between which there is no line.
    """
    found = _numbered(names)
    return found if found and len(set(found.numbers)) >= _FEWEST else None


def listed(names: Sequence[str], total: int) -> str:
    """Names of parts in words, as "5, 7 and 8 hidden layers"; of many that are not alike, how many they are.

    Args:
        names: of some parts.
        total: how many parts there are.

    Returns:
        The words.
    """
    found = _numbered(names)
    if not found and len(names) > _MOST_NAMES:
        return f"{len(names)} of {total} settings"
    words = [f"{number:,}" for number in found.numbers] if found else list(names)
    text = " and ".join([", ".join(words[:-1])] * (len(words) > 1) + words[-1:])
    return f"{text} {found.label}" if found else text


def _numbered(names: Sequence[str]) -> Scale | None:
    """Names that are a number and the same words."""
    found = [match for match in map(_NUMBERED.fullmatch, names) if match]
    labels = {match[2] for match in found}
    if not names or len(found) < len(names) or len(labels) > 1:
        return None
    return Scale(labels.pop(), [int(match[1].replace(",", "")) for match in found])
