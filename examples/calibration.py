"""Accuracy, likelihood and calibration: SGD, a deep ensemble, and samples at several temperatures.

::

    python -m examples.calibration                  # Fashion-MNIST, or scikit-learn's digits without it
    python -m examples.calibration --device cuda --epochs 100 --out out
"""

from collections.abc import Sequence

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import colangevin as cl
from examples.images import Images, load, parser, sample, train

__all__ = ["compare", "main"]


def compare(
    images: Images, temperatures: Sequence[float], *, copies: int, chains: int, epochs: int
) -> tuple[dict[str, Tensor], cl.diagnostics.Report]:
    """The probabilities that every method gives the test set.

    Args:
        images: the data.
        temperatures: T of the posteriors to sample.
        copies: networks of the ensemble.
        chains: for each temperature.
        epochs: of training, and of sampling.

    Returns:
        Shape (data, classes) by method, and the report on the sampling.
    """
    found = {}
    ensemble = _probabilities(train(images, copies, epochs), images)
    found["SGD"] = ensemble[0, 0]
    found[f"ensemble of {copies}"] = ensemble.mean((0, 1))
    samples, report = sample(images, temperatures, chains, epochs)
    for T, each in zip(temperatures, _probabilities(samples, images).split(chains), strict=True):
        found[f"c-CoLud, T = {T:g}"] = each.mean((0, 1))
    return found, report


def _probabilities(samples: cl.Samples, images: Images) -> Tensor:
    """Probabilities of every chain and sample on the test set, computed in pieces that fit the memory."""
    parts = [samples.predict(x, transform=nn.Softmax(-1)).samples for x in images.x_test.split(1000)]
    return torch.cat(parts, dim=2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, sample, judge; write a reliability plot for each method.

    Args:
        arguments: of the command line; those of the process when None.
    """
    words = parser("examples.calibration")
    words.add_argument("--copies", type=int, default=10, help="networks of the ensemble")
    words.add_argument("--chains", type=int, default=4, help="for each temperature")
    words.add_argument("--temperatures", type=float, nargs="+", default=[0.01, 0.1, 1.0])
    options = words.parse_args(arguments)
    torch.manual_seed(0)
    images = load(options.data, torch.device(options.device))
    found, report = compare(
        images, options.temperatures, copies=options.copies, chains=options.chains, epochs=options.epochs
    )
    report.show()
    table = Table(title=f"{images.name}: {len(images.x)} training and {len(images.x_test)} test images")
    for title in ("method", "accuracy", "NLL", "ECE"):
        table.add_column(title)
    for name, probabilities in found.items():
        judged = cl.quality(probabilities, images.y_test)
        table.add_row(name, f"{judged.accuracy:.2%}", f"{judged.nll:.4f}", f"{judged.ece:.4f}")
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            slug = "".join(c if c.isalnum() else "-" for c in name)
            cl.plot_reliability(probabilities, images.y_test).savefig(options.out / f"{slug}.svg")
    Console().print(table)


if __name__ == "__main__":
    main()
