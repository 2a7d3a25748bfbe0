"""The letters of a splitting as numbers of two bits, the first letter lowest."""

from collections.abc import Iterable

import triton.language as tl

__all__ = ["LETTER_A", "LETTER_B", "encoded"]

_CODES = {"A": 1, "B": 2, "O": 3}
LETTER_A = tl.constexpr(_CODES["A"])
LETTER_B = tl.constexpr(_CODES["B"])


def encoded(letters: Iterable[str]) -> int:
    """The number that a kernel reads letter i from, as bits 2i and 2i + 1; 0 for no letters."""
    return sum(_CODES[letter] << (2 * i) for i, letter in enumerate(letters))
