"""The demo: SGD beside o-CoLod on the 4-turn spiral, ``python -m colangevin.experiments.demo``."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from colangevin.experiments.four_turn import (
    BATCH_SIZE,
    METHODS,
    STEP_SIZE,
    TEST_POINTS,
    TRAIN_POINTS,
    Job,
)
from colangevin.experiments.parallel import run_all

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print a table, draw the decision boundaries and print where the picture is.

    Args:
        arguments: of the command line; those of the process when None.

    Raises:
        SystemExit: when an argument is wrong or the extra ``experiments`` is not installed.
    """
    options = _parse(arguments)
    try:
        from colangevin.experiments import display
    except ModuleNotFoundError as missing:
        package = str(missing.name).partition(".")[0]
        raise SystemExit(
            f"The demo needs {package}, which is not installed. It comes with an extra:\n"
            '    pip install "colangevin[experiments]"'
        ) from None
    options.out.mkdir(parents=True, exist_ok=True)
    display.say(
        f"4-turn spiral, {TRAIN_POINTS} training and {TEST_POINTS} test points.\n"
        f"{options.depth} hidden layers of 100, step size {STEP_SIZE}, batches of {BATCH_SIZE}.\n"
        f"{options.epochs} epochs, runs of each method: {options.runs}."
    )
    jobs = [
        Job(method, number, options.depth, options.epochs)
        for method in METHODS
        for number in range(options.runs)
    ]
    with display.progress("Training", total=len(jobs) * options.epochs) as show:
        outcomes = run_all(jobs, show)
    display.table(outcomes)
    path = options.out / "demo.png"
    display.picture([each for each in outcomes if each.job.run == 0], path)
    display.say(f"Decision boundaries of the first run: {path}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m colangevin.experiments.demo",
        description="Train SGD beside o-CoLod on the 4-turn spiral.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the picture")
    parser.add_argument("--epochs", type=_positive, default=600, help="passes over the data")
    parser.add_argument("--runs", type=_positive, default=2, help="repetitions of each method")
    parser.add_argument("--depth", type=_positive, default=8, help="hidden layers, at least 2")
    options = parser.parse_args(arguments)
    if options.depth < 2:
        parser.error("argument --depth: below 2 no hidden layer feeds another, nothing to constrain")
    return options


def _positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


if __name__ == "__main__":
    main()
