"""Several runs of a method in few numbers: means and spreads, for tables and plots."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colangevin.experiments.catalogue.measures import MEASURES

__all__ = ["over_runs", "readable", "summary"]

Array = NDArray[Any]

# Larger losses are those of trainings that diverged: guessing among 33,278 words costs 10.4.
_LOST = 100.0


def over_runs(curves: Array) -> tuple[Array, Array]:
    """Mean and standard deviation over the last dimension, the runs. NaN are left out; all NaN give NaN."""
    there = np.isfinite(curves)
    count = there.sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(there, curves, 0).sum(-1) / count
        square = np.where(there, (curves - mean[..., None]) ** 2, 0).sum(-1)
        spread = np.sqrt(square / np.maximum(1, count - 1))
    return mean, spread


def readable(losses: Array) -> tuple[float, float] | None:
    """The range of a plot of losses when some trainings diverged, so that the others can be read.

    Args:
        losses: over training, of any shape.

    Returns:
        The lowest and the highest loss to show; None when no training diverged.
    """
    finite = losses[np.isfinite(losses)]
    kept = finite[finite <= _LOST]
    if len(kept) == len(finite) or not len(kept):
        return None
    return 0.9 * float(kept.min()), 2 * float(np.median(kept))


def summary(name: str, values: Mapping[str, Array], method: int) -> str:
    """What a table says of a method: mean and standard deviation over runs, or what the measure says.

    Args:
        name: of the measure.
        values: of shape (methods, runs) by measure.
        method: its number.

    Returns:
        The text, without unit.
    """
    measure = MEASURES[name]
    mine = values[name][method]
    finite = mine[np.isfinite(mine)]
    if not len(finite):
        return "not finite"
    if measure.over_runs == "largest":
        return measure.format(float(finite.max()))
    if measure.over_runs != "mean":
        counts, means, stds = (
            values[key][method][np.isfinite(mine)]
            for key in ("curvature points", "curvature", "curvature std")
        )
        mean = float((counts * means).sum() / counts.sum())
        if measure.over_runs == "pooled mean":
            return measure.format(mean)
        square = float((counts * (stds**2 + means**2)).sum() / counts.sum())
        return measure.format(max(0.0, square - mean**2) ** 0.5)
    text = measure.format(float(finite.mean()))
    return f"{text} ± {measure.format(float(finite.std(ddof=1)))}" if len(finite) > 1 else text
