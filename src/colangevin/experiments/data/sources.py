"""Files of data sets: where they lie, how they come from the network, whether they are the right ones."""

import hashlib
import os
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

from colangevin.files import HALF, write_whole
from colangevin.locks import alone

__all__ = ["DataError", "Progress", "downloading", "fetch", "keep", "official", "own_folder", "read"]

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


@contextmanager
def downloading(folder: Path, names: Iterable[str]) -> Iterator[None]:
    """Let one process at a time download into a folder; the next then finds what is there.

    What a kill left half written is swept up.

    Args:
        folder: made when it is not there.
        names: of the files that may come.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder / ".lock") as only:
        if only:
            for left in [left for name in names for left in folder.glob(f".{name}.*{HALF}")]:
                left.unlink(missing_ok=True)
        yield


def fetch(url: str, progress: Progress | None) -> bytes:
    """What a URL has, all of it in memory.

    Args:
        url: where it is.
        progress: told how it goes.

    Returns:
        What came.

    Raises:
        OSError: when it cannot be had.
    """
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            length = answer.headers.get("Content-Length") or ""
            total = int(length) if length.isdecimal() else 0
            content = bytearray()
            while piece := answer.read(1 << 16):
                content += piece
                if progress is not None:
                    progress(url.rsplit("/", 1)[-1], len(content), total)
    except HTTPException as error:  # an answer that is none
        raise OSError(f"{type(error).__name__}: {error}") from error
    return bytes(content)


def read(path: Path) -> bytes:
    """What a file holds.

    Args:
        path: of the file.

    Returns:
        Its contents.

    Raises:
        DataError: when it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror or error}). Make it readable. {_REPLACE}"
        ) from error


def keep(path: Path, content: bytes) -> None:
    """Write a file that has come, whole or not at all.

    Args:
        path: of the file, in a folder that exists.
        content: all of it.

    Raises:
        DataError: when the disk does not take it.
    """
    try:
        write_whole(path, content)
    except OSError as error:
        raise DataError(
            f"{path}: could not be written ({error.strerror or error}). Make room and make the folder "
            "writable, or set COLANGEVIN_DATA to another folder. Then run the command again."
        ) from error


def official(
    content: bytes,
    expected: str,
    where: Path | str,
    whose: str,
    unpack: Callable[[bytes], bytes] = bytes,
) -> bytes:
    """The unpacked contents of a file, which are those of the data set.

    Args:
        content: as it was found.
        expected: SHA-256 of what is in it.
        where: it was found, a path or a URL.
        whose: it should be.
        unpack: makes the contents of it.

    Returns:
        The contents.

    Raises:
        DataError: when it is damaged or something else.
    """
    todo = _REPLACE if isinstance(where, Path) else _AGAIN
    try:
        unpacked = unpack(content)
    except Exception as error:  # of damaged bytes, gzip, xz and pickle raise almost anything
        raise DataError(
            f"{where}: is not a whole file of {whose} ({type(error).__name__}: {error}). {todo}"
        ) from error
    found = hashlib.sha256(unpacked).hexdigest()
    if found != expected:
        raise DataError(
            f"{where}: the unpacked contents have SHA-256 {found}, {whose}'s are {expected}. {todo}"
        )
    return unpacked


_REPLACE = "Put the official file in its place, or remove it; it is then downloaded."
_AGAIN = "Nothing of it was kept. Try again later, or put the official files where COLANGEVIN_DATA points. "
