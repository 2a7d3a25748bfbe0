"""Singular values of a network's weights, summed up."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["QUANTILES", "named", "quantiles"]

QUANTILES = ("smallest", "median", "largest")


def quantiles(values: NDArray[Any]) -> NDArray[Any]:
    """Smallest, median and largest singular value of every weight, means over the runs there are.

    Args:
        values: of shape (methods, runs, weights, most), NaN where a weight has fewer or a run is missing.

    Returns:
        Of shape (3, methods, weights), NaN for methods without a run.
    """
    there = np.isfinite(values)
    count = there.sum(-1)  # the largest come first
    ranked = np.where(there, values, 0.0).astype(float)
    places = (count - 1, (count - 1) // 2, np.zeros_like(count))
    picked = [np.take_along_axis(ranked, np.maximum(place, 0)[..., None], -1)[..., 0] for place in places]
    runs = np.where(count > 0, np.stack(picked), np.nan)  # (3, methods, runs, weights)
    seen = np.isfinite(runs).sum(2)
    with np.errstate(divide="ignore", invalid="ignore"):
        means: NDArray[Any] = np.nansum(runs, axis=2) / seen
    return means


def named(layers: Sequence[str], most: int) -> list[int]:
    """Which weights an axis names: evenly spaced ones, the first among them, so that names stay apart.

    Args:
        layers: names of all weights.
        most: that there is room for.

    Returns:
        Their places.
    """
    step = -(-len(layers) // most)
    return list(range(0, len(layers), step))
