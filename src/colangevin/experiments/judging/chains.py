"""Chains of one posterior: how near their predictions are to a reference together, and whether they agree."""

import statistics
from typing import NamedTuple

from torch import Tensor

import colangevin as cl
from colangevin.experiments.judging.agreement import agreement, total_variation
from colangevin.experiments.judging.calibration import judge_predictions

__all__ = ["TRACES", "Agreed", "Distance", "distance", "r_hat"]

#: what chains have to agree on, in words, by the name of its array
TRACES = {
    "kernel_norms": "norms of kernels",
    "kernel_entries": "entries of kernels",
    "log_probabilities": "log-probabilities of test images",
}

# R-hat splits every chain in two, and asks for two draws of each half.
_FEWEST_DRAWS = 4
# Traces are stored in float16: what varies less than this of its size is constant up to rounding.
_ROUNDING = 2.0**-9


class Distance(NamedTuple):
    """How predictions compare with a reference and with the right classes.

    Attributes:
        agreement: share of data with the same most probable class as in the reference.
        total_variation: from the reference.
        accuracy: share of data whose most probable class is right.
        loss: mean negative logarithm of the probability of the right class.
        calibration_error: expected calibration error.
    """

    agreement: float
    total_variation: float
    accuracy: float
    loss: float
    calibration_error: float


class Agreed(NamedTuple):
    """R-hat of several numbers.

    Attributes:
        median: over the numbers.
        largest: of them.
    """

    median: float
    largest: float


def distance(probabilities: Tensor, reference: Tensor, labels: Tensor) -> Distance:
    """Judge predictions.

    Args:
        probabilities: of shape (data, classes).
        reference: to compare with, of the same shape.
        labels: the right classes, of shape (data,).

    Returns:
        The distance.
    """
    near = agreement(probabilities, reference), total_variation(probabilities, reference)
    return Distance(*near, *judge_predictions(probabilities, labels))


def r_hat(chains: Tensor) -> Agreed | None:
    """Whether chains agree on numbers; above 1.01 they do not.

    Args:
        chains: of shape (chains, draws, numbers).

    Returns:
        R-hat over the numbers that vary; None when none does, or for fewer than four draws.

    Raises:
        ModuleNotFoundError: naming the extra, when ArviZ is not installed.
    """
    flat = chains.double().flatten(0, 1)
    varies = flat.std(0) > _ROUNDING * flat.mean(0).abs()
    if chains.shape[1] < _FEWEST_DRAWS or not bool(varies.any()):
        return None
    numbers = {str(place): chains[..., place] for place in varies.nonzero().flatten().tolist()}
    found = [each.rhat for each in cl.diagnostics.convergence(numbers).values()]
    return Agreed(statistics.median(found), max(found))
