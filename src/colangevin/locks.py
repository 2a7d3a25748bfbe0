"""Locks between processes. The operating system ends them with the process, whatever becomes of it."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Lock", "alone", "alone_in", "unless_taken"]

#: locks of this process by device and number of their files
_held: "WeakValueDictionary[tuple[int, int], Lock]" = WeakValueDictionary()


class Lock:
    """A lock file that one process holds at a time.

    Within a process the latest object to take the lock has it, and :attr:`held` of the earlier one turns
    false: an object that nobody can reach any more, kept alive by a traceback, must not block its successor.
    The file stays: after a remove and re-create, two processes could hold locks on different files of one
    name.

    Copies do not hold the lock, nor do the children of a fork.

    Args:
        path: of the file, in a folder that exists once the lock is taken.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object has the lock; no longer when somebody has removed the file."""
        if self._file is None:
            return False
        try:
            there = os.stat(self.path)
        except OSError:
            return False
        return _identity(os.fstat(self._file)) == _identity(there)

    def take(self) -> bool:
        """Take the lock, until the process ends or the object goes.

        Returns:
            Whether it is ours; False when another process has it.
        """
        self.release()
        file = _open(self.path)
        key = _identity(os.fstat(file))
        earlier = _held.get(key)
        if earlier is not None and earlier._file is not None:
            os.close(file)
            file, earlier._file = earlier._file, None
        else:
            try:
                ours = _lock(file, wait=False)
            except OSError as error:
                ours = True
                warnings.warn(
                    f"{self.path}: there are no locks here ({error.strerror or error}). See to it that only "
                    f"one process writes into {self.path.parent}.",
                    stacklevel=2,
                )
            if not ours:
                os.close(file)
                return False
        self._file = file
        _held[key] = self
        return True

    def release(self) -> None:
        """Give the lock up, if it is held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        self.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return Lock, (self.path,)


@contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Wait for a lock file, and keep other processes waiting meanwhile.

    Args:
        path: of the file, in a folder that exists.

    Yields:
        Whether we are alone; False where there are no locks.
    """
    with _waited_for(_open(path)) as ours:
        yield ours


@contextmanager
def alone_in(folder: Path) -> Iterator[bool]:
    """Wait for the lock of a folder itself, which puts no file into it.

    Args:
        folder: which exists.

    Yields:
        Whether we are alone; False where there are no locks.
    """
    with _waited_for(os.open(folder, os.O_RDONLY)) as ours:
        yield ours


@contextmanager
def unless_taken(path: Path) -> Iterator[bool]:
    """Take a lock file without waiting, and keep other processes off meanwhile.

    Unlike a :class:`Lock` it is not taken from an earlier holder in the same process. An OSError says that
    there can be no lock.

    Args:
        path: of the file, in a folder that exists.

    Yields:
        Whether it is ours; False when somebody else has it.
    """
    file = _open(path)
    try:
        yield _lock(file, wait=False)
    finally:
        os.close(file)


@contextmanager
def _waited_for(file: int) -> Iterator[bool]:
    """Lock an open file as soon as it is free, and close it afterwards."""
    try:
        try:
            ours = _lock(file, wait=True)
        except OSError:
            ours = False
        yield ours
    finally:
        os.close(file)


def _open(path: Path) -> int:
    """The lock file, made if need be; a link in its place is not followed."""
    return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _lock(file: int, *, wait: bool) -> bool:
    """Lock an open file, if no other process has; OSError where that cannot be done at all."""
    if fcntl is None:
        raise OSError("this platform has no flock")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (BlockingIOError, PermissionError):  # the latter from network file systems
        return False
    return True


def _forget() -> None:
    """In the child of a fork: the locks are its parent's, and must not outlive it there."""
    for lock in list(_held.values()):
        lock.release()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
