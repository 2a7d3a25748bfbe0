"""Files of data sets: where they lie, how they come from the network, whether they are the right ones."""

import hashlib
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path

__all__ = ["DataError", "Progress", "check", "fetch", "own_folder"]

#: told the name of a file, the bytes that have come and those there are
Progress = Callable[[str, int, int], None]


class DataError(RuntimeError):
    """A data set that cannot be had, with what to do about it."""


def own_folder(name: str) -> Path:
    """Where a data set lies that belongs to this package, or will lie once it is downloaded.

    Args:
        name: of the data set.

    Returns:
        ``$COLANGEVIN_DATA/name``; without the variable, a folder in the user's cache.
    """
    if "COLANGEVIN_DATA" in os.environ:
        return Path(os.environ["COLANGEVIN_DATA"]) / name
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "colangevin" / name


def fetch(url: str, progress: Progress | None) -> bytes:
    """What a URL has, all of it in memory."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        total = int(answer.headers.get("Content-Length") or 0)
        content = bytearray()
        while piece := answer.read(1 << 16):
            content += piece
            if progress is not None:
                progress(url.rsplit("/", 1)[-1], len(content), total)
    return bytes(content)


def check(content: bytes, expected: str, where: object, whose: str) -> None:
    """Raise unless contents are those of the data set.

    Args:
        content: as they were found.
        expected: their SHA-256.
        where: they come from, for the error.
        whose: they should be, for the error.

    Raises:
        DataError: naming both sums.
    """
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DataError(
            f"{where}: the unpacked contents have SHA-256 {found}, {whose}'s are {expected}. "
            "Remove the file; it is then downloaded again, or put the official one there."
        )
