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

from colangevin.experiments.description import Experiment, Part

__all__ = ["Screen", "watch"]


class Screen:
    """A watcher that draws on a terminal.

    Args:
        experiment: what is run.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
        )
        self._tasks: dict[str, Any] = {}
        self._task: Any = None
        self._table: Table | str = ""
        self._methods: list[str] = []

    def __rich__(self) -> Group:
        return Group(self._table, self.progress, "")

    def begin(self, part: Part, epoch: int) -> None:
        self._methods = [method.name for method in part.methods]
        self._task = self.progress.add_task(
            f"{part.name}, epochs", total=self.experiment.epochs, completed=epoch
        )

    def advanced(self, epoch: int) -> None:
        self.progress.update(self._task, completed=epoch)

    def measured(self, curves: dict[str, NDArray[Any]]) -> None:
        table = Table(title=self.experiment.title)
        table.add_column("method")
        for title in ("test accuracy, %", "test loss", "train accuracy, %"):
            table.add_column(title, justify="right")
        accuracy, loss, train = (curves[n][-1] for n in ("test_accuracy", "test_loss", "train_accuracy"))
        for number, name in enumerate(self._methods):
            cells = (
                _spread(100 * accuracy[number], 1),
                _spread(loss[number], 3),
                _spread(100 * train[number], 1),
            )
            table.add_row(name, *cells)
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
    screen = Screen(experiment)
    with Live(screen, console=console, refresh_per_second=4):
        yield screen


def _spread(values: NDArray[Any], digits: int) -> str:
    """Mean and, from two runs on, standard deviation."""
    text = f"{np.mean(values):.{digits}f}"
    return f"{text} ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else text
