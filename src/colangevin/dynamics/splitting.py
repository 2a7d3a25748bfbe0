"""The grammar of splitting strings: "OBA" means noise, then kick, then drift.

A string is a sequence of the letters A, B and O, each at least once; a letter's share of the step is 1 over
how often it occurs. ``torch.optim`` hands a step one gradient, at the position before it. As long as every B
comes before every A that is all a step needs. A string that begins and ends with B, as BAOAB, needs no more
either: its last kick and the next step's first use the same gradient at the same position, so they are one.
Any other B after an A needs the gradient at the new position, from a closure.
"""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from colangevin.errors import SplittingError

__all__ = ["Letter", "Splitting", "parse"]

#: a letter and its share of the step
Letter = tuple[str, float]

_LETTERS = "ABO"
_MEANING = {"A": "the drift", "B": "the gradient", "O": "friction and temperature"}


@dataclass(frozen=True)
class Splitting:
    """A parsed string: its letters in segments, each of which starts with a fresh gradient."""

    text: str
    segments: tuple[tuple[Letter, ...], ...]


def parse(text: str) -> Splitting:
    """Parse a splitting string.

    Args:
        text: for instance ``"OBA"``, ``"BOA"`` or ``"BAOAB"``.

    Returns:
        The letters with their shares, cut into segments before every B that needs a new gradient.

    Raises:
        SplittingError: naming the string, the letter and its position.

    >>> parse("BAOAB").segments
    ((('B', 1.0), ('A', 0.5), ('O', 1.0), ('A', 0.5)),)
    """
    if not isinstance(text, str):
        raise SplittingError(f"splitting={text!r}: must be a string of the letters A, B and O.")
    return _parse(text)


@lru_cache(maxsize=64)
def _parse(text: str) -> Splitting:
    for position, letter in enumerate(text):
        if letter not in _LETTERS:
            raise SplittingError(
                f"splitting={text!r}: unknown letter {letter!r} at position {position}; letters are A, B, O."
            )
    for letter in _LETTERS:
        if letter not in text:
            raise SplittingError(
                f"splitting={text!r}: letter {letter!r} is missing, so {_MEANING[letter]} would have no "
                "effect; use each of A, B and O at least once."
            )
    count = Counter(text)
    letters = [(letter, 1 / count[letter]) for letter in _merge_ends(text)]
    return Splitting(text, tuple(_segments(_join_kicks(letters))))


def _merge_ends(text: str) -> str:
    """Move the trailing Bs of a string that begins with B to its front."""
    body = text.rstrip("B")
    return text[len(body) :] + body if text.startswith("B") else text


def _join_kicks(letters: list[Letter]) -> list[Letter]:
    """Join neighbouring Bs; neighbouring As stay apart, since RATTLE in two halves is more accurate."""
    joined: list[Letter] = []
    for letter, share in letters:
        if joined and joined[-1][0] == letter == "B":
            joined[-1] = (letter, joined[-1][1] + share)
        else:
            joined.append((letter, share))
    return joined


def _segments(letters: list[Letter]) -> list[tuple[Letter, ...]]:
    """Cut before every B whose gradient an earlier A has made stale."""
    segments: list[list[Letter]] = [[]]
    moved = False
    for letter in letters:
        if letter[0] == "B" and moved:
            segments.append([])
            moved = False
        moved = moved or letter[0] == "A"
        segments[-1].append(letter)
    return [tuple(segment) for segment in segments]
