"""Who is told how a run goes."""

from typing import Any, Protocol

from numpy.typing import NDArray

from colangevin.experiments.catalogue.jobs import Job

__all__ = ["Watcher"]


class Watcher(Protocol):
    """Told what happens while an experiment runs; the terminal is one. Several jobs may run at once."""

    def damaged(self, why: str) -> None:
        """A file of a job is not whole, and the job starts again."""

    def begin(self, job: Job, epoch: int) -> None:
        """A job starts, or goes on, at an epoch."""

    def advanced(self, job: Job, epoch: int) -> None:
        """An epoch of a job is done, or on its way through the device."""

    def measured(self, job: Job, curves: dict[str, NDArray[Any]]) -> None:
        """A job's curves so far, of shape (points, methods, runs)."""

    def looking(self, job: Job, done: int, total: int) -> None:
        """How many classifiers of a job have had their boundary measured."""

    def downloading(self, name: str, done: int, total: int) -> None:
        """Bytes of a file that have come, and of how many."""
