"""Single files of results: written whole or not at all, and named when they cannot be read."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from colangevin.experiments.storage.decoding import quoted
from colangevin.files import write_whole

__all__ = [
    "DamagedError",
    "StoreError",
    "as_utf8",
    "read_json",
    "whole",
    "write_atomically",
    "write_json",
]

T = TypeVar("T")

# Most bytes of a JSON file that are read; the largest of the paper's experiments has a quarter of a million.
_MOST_JSON_BYTES = 2**26


class StoreError(RuntimeError):
    """Results that cannot be written or do not fit, with what to do about it."""


class DamagedError(StoreError):
    """A file of a job that is not whole.

    Args:
        path: of the file.
        reason: what is wrong with it.
    """

    def __init__(self, path: Path, reason: object) -> None:
        super().__init__(
            f"{path} is damaged: {str(reason)[:300]}. Run the experiment again with --resume: this job then "
            "starts again, and jobs whose files are whole are kept."
        )


def as_utf8(word: Path | str) -> str:
    """A path or a word of the command line as text that can be written, whatever the locale made of it."""
    return os.fsencode(word).decode("utf-8", "replace")


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that at every moment, killed or not, either the old or the new one is there.

    Args:
        path: of the file, in a folder that exists.
        content: all of it.

    Raises:
        StoreError: when that failed; the old file is untouched.
    """
    try:
        write_whole(path, content)
    except OSError as error:
        raise StoreError(
            f"Could not write {path} ({error.strerror or error}). What was there is unchanged. "
            "Make room or make the folder writable, then run the same command with --resume."
        ) from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object so that the same object gives the same bytes, in UTF-8 whatever the locale."""
    text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True)
    write_atomically(path, text.encode() + b"\n")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Args:
        path: of the file.

    Returns:
        The object.

    Raises:
        ValueError: when there is none.
    """
    try:
        if not path.is_file():  # opening a pipe would wait for ever
            raise ValueError("there is no such file")
        if (size := path.stat().st_size) > _MOST_JSON_BYTES:
            raise ValueError(f"it has {size:,} bytes; at most {_MOST_JSON_BYTES:,} are read")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(content, dict):
        raise ValueError(f"it is {quoted(content)}, not an object")
    return content


def whole(read: Callable[[Path], T], path: Path) -> T:
    """What a function reads from a file of a job.

    Args:
        read: raises a ValueError when the file is not whole.
        path: of the file.

    Returns:
        What it read.

    Raises:
        DamagedError: when it could not.
    """
    try:
        return read(path)
    except ValueError as error:
        raise DamagedError(path, error) from error
