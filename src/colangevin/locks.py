"""Locks between processes. The operating system releases a lock when its process ends, even by a kill."""

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

#: locks that this process holds, by device and inode of their files
_held: "WeakValueDictionary[tuple[int, int], Lock]" = WeakValueDictionary()


class Lock:
    """A lock file that one process holds at a time.

    Within a process, an object that takes the lock takes it from the object that held it, whose :attr:`held`
    turns false. Otherwise an unused object that a traceback keeps alive would block its successor. A copy of
    an object does not hold the lock, and neither does the child of a fork.

    The file is never removed: after a remove and re-create, two processes could hold locks on different
    inodes of one name.

    Args:
        path: of the file. Its folder must exist when the lock is taken.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object has the lock. It has lost the lock if somebody has removed the file."""
        if self._file is None:
            return False
        try:
            there = os.stat(self.path)
        except OSError:
            return False
        return _identity(os.fstat(self._file)) == _identity(there)

    def take(self) -> bool:
        """Take the lock, until :meth:`release`, the end of the object or the end of the process.

        Returns:
            Whether this object has the lock; False when another process has it.
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
        """Release the lock, if it is held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        self.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return Lock, (self.path,)


@contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Hold the lock on a file, after waiting for other processes to release it.

    Args:
        path: of the file, in a folder that exists.

    Yields:
        Whether the lock is held; False on a file system without locks.
    """
    with _waited_for(_open(path)) as ours:
        yield ours


@contextmanager
def alone_in(folder: Path) -> Iterator[bool]:
    """Hold the lock on a folder itself, after waiting for it. No lock file is put into the folder.

    Args:
        folder: one that exists.

    Yields:
        Whether the lock is held; False on a file system without locks.
    """
    with _waited_for(os.open(folder, os.O_RDONLY)) as ours:
        yield ours


@contextmanager
def unless_taken(path: Path) -> Iterator[bool]:
    """Hold the lock on a file if it is free, without waiting.

    Unlike :class:`Lock`, this does not take the lock from an earlier holder in the same process. An OSError
    says that the file system has no locks.

    Args:
        path: of the file, in a folder that exists.

    Yields:
        Whether the lock is held; False when another holder has it.
    """
    file = _open(path)
    try:
        yield _lock(file, wait=False)
    finally:
        os.close(file)


@contextmanager
def _waited_for(file: int) -> Iterator[bool]:
    """Wait for the lock on an open file, and close the file afterwards, which releases the lock."""
    try:
        try:
            ours = _lock(file, wait=True)
        except OSError:
            ours = False
        yield ours
    finally:
        os.close(file)


def _open(path: Path) -> int:
    """Open the lock file, made if it does not exist. A symbolic link in its place is not followed."""
    return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _lock(file: int, *, wait: bool) -> bool:
    """Lock an open file; False if another process holds it. OSError where there are no locks."""
    if fcntl is None:
        raise OSError("this platform has no flock")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (BlockingIOError, PermissionError):  # PermissionError comes from network file systems
        return False
    return True


def _forget() -> None:
    """In the child of a fork, close the lock files: a lock lasts while any process has its file open."""
    for lock in list(_held.values()):
        lock.release()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
