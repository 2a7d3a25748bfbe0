"""Names of experiments, parts and methods, and the file names that are made of them."""

import re
from collections.abc import Sequence

__all__ = ["check_distinct", "check_plain", "slug"]

_PLAIN = re.compile("[A-Za-z0-9]+(-[A-Za-z0-9]+)*")
# The name of a file is made of those of experiment, part and method, and must stay below 255 bytes.
_LONGEST = 70
_GREEK = str.maketrans({"γ": "gamma", "λ": "lambda", "τ": "tau"})


def slug(name: str) -> str:
    """A name as a file name, in letters that every file system takes."""
    plain = name.lower().translate(_GREEK)
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in plain)


def check_plain(name: str) -> None:
    """Refuse a name of an experiment or a figure that is not a plain word. Experiments name folders.

    Args:
        name: the name.

    Raises:
        ValueError: when it is refused.
    """
    if not _PLAIN.fullmatch(name) or len(name) > _LONGEST:
        raise ValueError(
            f"name {name[:_LONGEST]!r} must be letters and digits with single hyphens between them, at most "
            f"{_LONGEST}"
        )


def check_distinct(what: str, names: Sequence[str]) -> None:
    """Refuse names of parts or methods if two would share a file, or if a legend would leave one out.

    Args:
        what: they are names of.
        names: the names.

    Raises:
        ValueError: when one is refused, or there is none.
    """
    if not names:
        raise ValueError(f"there is no {what}")
    for name in names:
        # matplotlib leaves labels that begin with an underscore out of a legend
        if not name[:1].isalnum() or len(slug(name)) > _LONGEST:
            raise ValueError(
                f"{what} {name[:_LONGEST]!r} must begin with a letter or digit and have at most {_LONGEST}"
            )
    if len({slug(name) for name in names}) < len(names):
        raise ValueError(f"two {what}s have the same file name, among {', '.join(names)}")
