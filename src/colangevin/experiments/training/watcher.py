"""Who is told how a run goes."""

from typing import Any, Protocol

from numpy.typing import NDArray

from colangevin.experiments.catalogue.jobs import Job

__all__ = ["Watcher"]


class Watcher(Protocol):
    """Told what happens while an experiment runs; the terminal is one."""

    def damaged(self, why: str) -> None:
        """A file of a job is not whole, and the job starts again."""

    def begin(self, job: Job, epoch: int) -> None:
        """A job starts, or goes on, at an epoch."""

    def advanced(self, epoch: int) -> None:
        """An epoch is done, or on its way through the device."""

    def measured(self, curves: dict[str, NDArray[Any]]) -> None:
        """The job's curves so far, of shape (points, methods, runs)."""

    def looking(self, done: int, total: int) -> None:
        """How many classifiers have had their boundary measured."""

    def downloading(self, name: str, done: int, total: int) -> None:
        """Bytes of a file that have come, and of how many."""
