"""What the terminal shows: progress with the time left, and a live table of the methods."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.jobs import Job, jobs

__all__ = ["Screen", "watch"]


class Screen:
    """A watcher that draws on a terminal.

    Args:
        experiment: what is run.
        console: the terminal.
    """

    def __init__(self, experiment: Experiment, console: Console) -> None:
        self.experiment = experiment
        self._console = console
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
        )
        self._tasks: dict[str, Any] = {}
        self._task: Any = None
        self._table: Table | str = ""
        self._job: Job | None = None
        # test accuracy, test loss and train accuracy of every run of every method so far, part by part
        self._rows: dict[str, dict[str, dict[int, tuple[float, float, float]]]] = {}
        self._jobs = jobs(experiment)
        self._several = len(self._jobs) > len(experiment.parts)

    def __rich__(self) -> Group:
        return Group(self._table, self.progress, "")

    def damaged(self, why: str) -> None:
        self._console.print(why, soft_wrap=True, highlight=False, markup=False)

    def begin(self, job: Job, epoch: int) -> None:
        if self._several:
            self._side("jobs", self._jobs.index(job), len(self._jobs))
        if self._several and self._task is not None:
            self.progress.remove_task(self._task)  # hundreds of bars would fill the screen
        self._job = job
        self._task = self.progress.add_task(
            f"{job.name}, epochs", total=self.experiment.epochs, completed=epoch
        )

    def advanced(self, epoch: int) -> None:
        self.progress.update(self._task, completed=epoch)

    def measured(self, curves: dict[str, NDArray[Any]]) -> None:
        assert self._job is not None
        rows = self._rows.setdefault(self._job.part.name, {})
        last = [curves[name][-1] for name in ("test_accuracy", "test_loss", "train_accuracy")]
        for i, method in enumerate(self._job.methods):
            for j, run in enumerate(self._job.runs):
                rows.setdefault(method.name, {})[run] = (last[0][i, j], last[1][i, j], last[2][i, j])
        parts = len(self.experiment.parts)
        table = Table(title=f"{self.experiment.title}{f', {self._job.part.name}' * (parts > 1)}")
        table.add_column("method")
        for title in ("test accuracy, %", "test loss", "train accuracy, %"):
            table.add_column(title, justify="right")
        for name, runs in rows.items():
            accuracy, loss, train = np.array(list(runs.values())).T
            table.add_row(name, _spread(100 * accuracy, 1), _spread(loss, 3), _spread(100 * train, 1))
        self._table = table

    def looking(self, done: int, total: int) -> None:
        self._side("decision boundaries", done, total)

    def downloading(self, name: str, done: int, total: int) -> None:
        self._side(f"{name}, bytes", done, total or done)

    def _side(self, title: str, done: int, total: int) -> None:
        if title not in self._tasks or self.progress.tasks[self._tasks[title]].finished:
            self._tasks[title] = self.progress.add_task(title, total=total)
        self.progress.update(self._tasks[title], completed=done)


@contextmanager
def watch(experiment: Experiment, console: Console) -> Iterator[Screen]:
    """Show a run on the terminal while it lasts; the last state stays there."""
    screen = Screen(experiment, console)
    with Live(screen, console=console, refresh_per_second=4):
        yield screen


def _spread(values: NDArray[Any], digits: int) -> str:
    """Mean and, from two runs on, standard deviation."""
    text = f"{np.mean(values):.{digits}f}"
    return f"{text} ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else text
