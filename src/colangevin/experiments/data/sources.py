"""Where a data set lies, where it is downloaded from, and whether its files are the official ones."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from colangevin.experiments.data.download import Progress, fetch
from colangevin.files import HALF, write_whole
from colangevin.locks import alone

__all__ = ["DataError", "Source", "keep"]

_REPLACE = "Put the official file in its place, or remove it; it is then downloaded."
_AGAIN = "Nothing of it was kept. Try again later, or put the official files where COLANGEVIN_DATA points. "


class DataError(RuntimeError):
    """A data set that cannot be had, with what to do about it."""


@dataclass(frozen=True)
class Source:
    """The origin of a data set, which reads and downloads its files and checks them by their SHA-256.

    Attributes:
        name: of the data set's folder.
        title: of the data set, in words.
        url: where it is downloaded from.
    """

    name: str
    title: str
    url: str

    @property
    def folder(self) -> Path:
        """``$COLANGEVIN_DATA/name``; without the variable, a folder in the user's cache."""
        if "COLANGEVIN_DATA" in os.environ:
            return Path(os.environ["COLANGEVIN_DATA"]) / self.name
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(cache) / "colangevin" / self.name

    def read(self, path: Path, expected: str, unpack: Callable[[bytes], bytes] = bytes) -> bytes:
        """The contents of a file on this machine.

        Args:
            path: of the file.
            expected: SHA-256 of its unpacked contents.
            unpack: makes the contents of the file's bytes.

        Returns:
            The unpacked contents.

        Raises:
            DataError: when the file cannot be read, is damaged or is another.
        """
        try:
            packed = path.read_bytes()
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read ({error.strerror or error}). Make it readable. {_REPLACE}"
            ) from error
        return self._unpacked(packed, expected, path, unpack, _REPLACE)

    def fetch(
        self,
        url: str,
        expected: str,
        progress: Progress | None,
        unpack: Callable[[bytes], bytes] = bytes,
    ) -> bytes:
        """A file from the network.

        Args:
            url: of the file.
            expected: SHA-256 of its unpacked contents.
            progress: told how it goes.
            unpack: makes the contents of the file's bytes.

        Returns:
            The file as it came, packed. An OSError when it cannot be had, a DataError when it is damaged or
            is another.
        """
        packed = fetch(url, progress)
        self._unpacked(packed, expected, url, unpack, _AGAIN)
        return packed

    def _unpacked(
        self, packed: bytes, expected: str, where: Path | str, unpack: Callable[[bytes], bytes], todo: str
    ) -> bytes:
        """The contents of a file, if they are the official ones."""
        try:
            unpacked = unpack(packed)
        except Exception as error:  # of damaged bytes, gzip, xz and pickle raise almost anything
            raise DataError(
                f"{where}: is not a whole file of {self.title} ({type(error).__name__}: {error}). {todo}"
            ) from error
        found = hashlib.sha256(unpacked).hexdigest()
        if found != expected:
            raise DataError(
                f"{where}: the unpacked contents have SHA-256 {found}, {self.title}'s are {expected}. {todo}"
            )
        return unpacked

    @contextmanager
    def downloading(
        self, folder: Path, names: Iterable[str], layout: str, instead: str = ""
    ) -> Iterator[None]:
        """Let one process at a time download into a folder; the next then finds the files there.

        Half-written files that a killed process left are removed.

        Args:
            folder: made when it is not there.
            names: of the files that may come.
            layout: where to put the files by hand, in words; part of the error.
            instead: another way to get them, in words.

        Raises:
            DataError: when the network or the folder fails; it says where to put the files by hand.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with alone(folder / ".lock") as only:
                if only:
                    for left in [left for name in names for left in folder.glob(f".{name}.*{HALF}")]:
                        left.unlink(missing_ok=True)
                yield
        except OSError as error:
            raise DataError(
                f"{self.title} is not on this machine and could not be downloaded from {self.url} "
                f"({error}).\n{layout}\nor set COLANGEVIN_DATA to a folder that has them in {self.name}/"
                f"{instead}. Then run the command again."
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
