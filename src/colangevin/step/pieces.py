"""Parameters cut into blocks that stay in the cache."""

from collections.abc import Iterator
from typing import NamedTuple

from colangevin.step.entry import Entry

__all__ = ["Piece", "cut", "whole"]

# Elements of a block. The dozen passes of a step over 1 MB each stay in the cache, and each pass takes long
# compared with its call. torch hands out 2^15 elements at a time, so a block feeds eight threads.
_BLOCK = 1 << 18


class Piece(NamedTuple):
    """A stretch of a parameter's elements: within one of its copies, or a number of whole copies."""

    entry: Entry
    start: int
    stop: int


def whole(entries: list[Entry]) -> list[list[Piece]]:
    """A block for every parameter."""
    return [[Piece(entry, 0, entry.numel)] for entry in entries]


def cut(entries: list[Entry]) -> list[list[Piece]]:
    """Parameters cut into pieces of at most a block, small ones together."""
    blocks: list[list[Piece]] = []
    together: list[Piece] = []
    size = 0
    for entry in entries:
        if entry.numel > _BLOCK:
            blocks += [[piece] for piece in _pieces(entry)]
            continue
        if size + entry.numel > _BLOCK and together:
            blocks.append(together)
            together, size = [], 0
        together.append(Piece(entry, 0, entry.numel))
        size += entry.numel
    return [*blocks, together] if together else blocks


def _pieces(entry: Entry) -> Iterator[Piece]:
    """A large parameter in pieces: whole copies where they are small, parts of one where they are not."""
    copy = entry.numel // entry.copies
    length = _BLOCK // copy * copy or _BLOCK
    for first in range(0, entry.numel, max(copy, length)):
        end = min(entry.numel, first + max(copy, length))
        for start in range(first, end, length):
            yield Piece(entry, start, min(end, start + length))
