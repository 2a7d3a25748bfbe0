"""What the demo shows: progress, a table and a picture. Nothing is trained here."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, stdev

from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from colangevin.experiments.four_turn import GRID_EDGE, Outcome, training_points

__all__ = ["picture", "progress", "say", "table"]


def say(text: str) -> None:
    """Print plain text; never wrapped, so that a path can be copied."""
    Console(soft_wrap=True, highlight=False, markup=False).print(text)


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar with the time left.

    Args:
        title: what is going on.
        total: how much there is to do.

    Yields:
        A function to tell how much is done.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)
        bar.update(task, completed=total)


def table(outcomes: Sequence[Outcome]) -> None:
    """Print accuracy, loss and largest violation of each method, over its runs."""
    result = Table(title="After training")
    result.add_column("method")
    result.add_column("test accuracy, %", justify="right")
    result.add_column("test loss", justify="right")
    result.add_column("max |W Wᵀ − I|", justify="right")
    for method in dict.fromkeys(outcome.job.method for outcome in outcomes):
        runs = [outcome for outcome in outcomes if outcome.job.method == method]
        violations = [each.violation for each in runs if each.violation is not None]
        result.add_row(
            method,
            _spread([100 * each.accuracy for each in runs], 1),
            _spread([each.loss for each in runs], 3),
            f"{max(violations):.1e}" if violations else "-",
        )
    Console(highlight=False).print(result)


def _spread(values: Sequence[float], digits: int) -> str:
    """Mean and, from two values on, standard deviation."""
    text = f"{mean(values):.{digits}f}"
    return f"{text} ± {stdev(values):.{digits}f}" if len(values) > 1 else text


def picture(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draw what each classifier of a run thinks of the plane, with the training points.

    Args:
        outcomes: of different methods on the same data.
        path: of the PNG; its folder is made if need be.
    """
    points, labels = training_points(outcomes[0].job.run)
    figure = Figure(figsize=(5 * len(outcomes), 5.4), layout="constrained")
    for axes, outcome in zip(figure.subplots(1, len(outcomes), squeeze=False)[0], outcomes, strict=True):
        axes.imshow(
            [[logit > 0 for logit in row] for row in outcome.logits],
            origin="lower",
            extent=(-GRID_EDGE, GRID_EDGE, -GRID_EDGE, GRID_EDGE),
            cmap="coolwarm",
            alpha=0.4,
        )
        axes.scatter(*points.T.tolist(), c=labels.tolist(), cmap="coolwarm", s=10, linewidths=0)
        axes.set_title(f"{outcome.job.method}: {100 * outcome.accuracy:.1f} % on test points")
        axes.set_xticks([])
        axes.set_yticks([])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
