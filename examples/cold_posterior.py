"""The cold-posterior curve: predictions of c-CoLud samples against the temperature of the posterior.

Wenzel et al. 2020, "How Good is the Bayes Posterior in Deep Neural Networks Really?", found posteriors colder
than Bayes' to predict better. All temperatures run as one batched model::

    python -m examples.cold_posterior --out out     # a table, and out/cold_posterior.svg
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import colangevin as cl
from examples.calibration import compare
from examples.images import Images, load, parser

__all__ = ["Point", "curve", "main"]


@dataclass(frozen=True)
class Point:
    """What samples at one temperature predict."""

    temperature: float
    quality: cl.Quality


def curve(
    images: Images, temperatures: Sequence[float], *, chains: int, epochs: int
) -> tuple[list[Point], cl.Quality, cl.diagnostics.Report]:
    """Quality at every temperature, that of one network of SGD, and the report on the sampling.

    Args:
        images: the data.
        temperatures: T, 1 being Bayes'.
        chains: for each.
        epochs: of sampling.

    Returns:
        The points in the order of the temperatures, SGD, and the report.
    """
    found, report = compare(images, temperatures, copies=1, chains=chains, epochs=epochs)
    judged = [cl.quality(each, images.y_test) for each in found.values()]
    points = [Point(T, each) for T, each in zip(temperatures, judged[2:], strict=True)]
    return points, judged[0], report


def plot(points: Sequence[Point], sgd: cl.Quality) -> Figure:
    """Negative log-likelihood and error against temperature, with SGD as a line."""
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes = figure.subplots(1, 2)
    temperatures = [point.temperature for point in points]
    for axis, label, values, line in (
        (axes[0], "NLL", [point.quality.nll for point in points], sgd.nll),
        (axes[1], "error", [1 - point.quality.accuracy for point in points], 1 - sgd.accuracy),
    ):
        axis.semilogx(temperatures, values, marker="o", label="c-CoLud")
        axis.axhline(line, linestyle="--", color="black", label="SGD")
        axis.axvline(1.0, linestyle=":", color="grey")
        axis.set(xlabel="T (1 is the Bayes posterior)", ylabel=label)
    axes[0].legend()
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Sample at every temperature, print the curve and plot it.

    Args:
        arguments: of the command line; those of the process when None.
    """
    words = parser("examples.cold_posterior")
    words.add_argument("--chains", type=int, default=2, help="for each temperature")
    words.add_argument(
        "--temperatures", type=float, nargs="+", default=[1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
    )
    options = words.parse_args(arguments)
    torch.manual_seed(0)
    images = load(options.data, torch.device(options.device))
    points, sgd, report = curve(images, options.temperatures, chains=options.chains, epochs=options.epochs)
    report.show()
    table = Table(title=f"{images.name}: c-CoLud")
    for title in ("T", "accuracy", "NLL", "ECE"):
        table.add_column(title)
    for point in points:
        each = point.quality
        table.add_row(f"{point.temperature:g}", f"{each.accuracy:.2%}", f"{each.nll:.4f}", f"{each.ece:.4f}")
    console = Console()
    console.print(table)
    console.print(f"one network of SGD: {sgd}")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        plot(points, sgd).savefig(options.out / "cold_posterior.svg")


if __name__ == "__main__":
    main()
