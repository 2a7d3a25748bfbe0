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
        self._sides: dict[str, Any] = {}
        self._epochs: dict[Job, Any] = {}
        self._table: Table | str = ""
        # test accuracy, test loss and train accuracy of every run of every method so far, part by part
        self._rows: dict[str, dict[str, dict[int, tuple[float, float, float]]]] = {}
        self._jobs = jobs(experiment)
        self._several = len(self._jobs) > len(experiment.parts)

    def __rich__(self) -> Group:
        return Group(self._table, self.progress, "")

    def damaged(self, why: str) -> None:
        self._console.print(why, soft_wrap=True, highlight=False, markup=False)

    def begin(self, job: Job, epoch: int) -> None:
        self.advanced(job, epoch)

    def advanced(self, job: Job, epoch: int) -> None:
        self.progress.update(self._bar(job), completed=epoch)

    def _bar(self, job: Job) -> Any:
        """The bar of a job, which it keeps when another worker takes it up."""
        if job not in self._epochs:
            if self._several:
                self._side("jobs", self._jobs.index(job), len(self._jobs))
                self._remove_finished()
            self._epochs[job] = self.progress.add_task(f"{job.name}, epochs", total=self.experiment.epochs)
        return self._epochs[job]

    def _remove_finished(self) -> None:
        """Remove the bars of jobs that are done: hundreds of bars would fill the screen."""
        finished = {task.id for task in self.progress.tasks if task.finished}
        for job in [job for job, bar in self._epochs.items() if bar in finished]:
            self.progress.remove_task(self._epochs.pop(job))

    def measured(self, job: Job, curves: dict[str, NDArray[Any]]) -> None:
        rows = self._rows.setdefault(job.part.name, {})
        last = [curves[name][-1] for name in ("test_accuracy", "test_loss", "train_accuracy")]
        for i, method in enumerate(job.methods):
            for j, run in enumerate(job.runs):
                rows.setdefault(method.name, {})[run] = (last[0][i, j], last[1][i, j], last[2][i, j])
        parts = len(self.experiment.parts)
        table = Table(title=f"{self.experiment.title}{f', {job.part.name}' * (parts > 1)}")
        table.add_column("method")
        for title in ("test accuracy, %", "test loss", "train accuracy, %"):
            table.add_column(title, justify="right")
        for name, runs in rows.items():
            accuracy, loss, train = np.array(list(runs.values())).T
            table.add_row(name, _spread(100 * accuracy, 1), _spread(loss, 3), _spread(100 * train, 1))
        self._table = table

    def looking(self, job: Job, done: int, total: int) -> None:
        self._side(f"{job.name}, decision boundaries", done, total)

    def downloading(self, name: str, done: int, total: int) -> None:
        self._side(f"{name}, bytes", done, total or done)

    def _side(self, title: str, done: int, total: int) -> None:
        if title not in self._sides:
            self._sides[title] = self.progress.add_task(title)
        self.progress.update(self._sides[title], completed=done, total=total)


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
