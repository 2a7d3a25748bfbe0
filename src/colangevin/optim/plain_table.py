"""Tables and notes in plain text that fit a terminal."""

import textwrap
from collections.abc import Sequence

__all__ = ["WIDTH", "lines_of", "wrapped"]

#: the most columns that a line takes
WIDTH = 100

_GAP = "  "
_CUT = ".."


def lines_of(rows: Sequence[Sequence[str]], *, right: str) -> list[str]:
    """The lines of a table at most `WIDTH` wide.

    Where it would be wider, long cells of the first column, which are names, lose their beginning, and others
    their middle.

    Args:
        rows: cells of each row, the header first.
        right: for each column, `">"` if it stands to the right and `"<"` if to the left.

    Returns:
        A line a row.

    >>> lines_of([["name", "weights"], ["bias", "10"]], right="<>")
    ['name  weights', 'bias       10']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = WIDTH - len(_GAP) * (len(widths) - 1)
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    cells = [[_tail(row[0], widths[0]), *map(_ends, row[1:], widths[1:])] for row in rows]
    return [
        _GAP.join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, right, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def wrapped(note: str) -> list[str]:
    """The lines of a sentence at most `WIDTH` wide."""
    return textwrap.wrap(note, WIDTH, subsequent_indent=_GAP, break_on_hyphens=False)


def _tail(cell: str, width: int) -> str:
    """A cell, without its beginning where it is too long."""
    return cell if len(cell) <= width else _CUT + cell[len(cell) - width + len(_CUT) :]


def _ends(cell: str, width: int) -> str:
    """A cell, without its middle where it is too long."""
    kept = width - len(_CUT)
    return cell if len(cell) <= width else cell[: kept - kept // 2] + _CUT + cell[len(cell) - kept // 2 :]
