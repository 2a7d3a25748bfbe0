"""The numbers that a training comes to, each by a name that claims and tables use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CURVES",
    "MEASURES",
    "Measure",
    "best_of_curves",
    "from_curves",
    "over_runs",
    "readable",
    "summary",
]

Array = NDArray[Any]


@dataclass(frozen=True)
class Measure:
    """How to show and to compare a number.

    Attributes:
        unit: printed after it.
        digits: after the point, or significant ones for what spans decades.
        decades: whether it spans decades; then methods are compared by ratio, and runs by geometric mean.
        over_runs: what a table shows of several runs. The moments of the curvature are those of all points of
            all boundaries together, as in the paper.
    """

    unit: str = ""
    digits: int = 3
    decades: bool = False
    over_runs: Literal["mean", "pooled mean", "pooled std", "largest"] = "mean"

    def format(self, value: float) -> str:
        """A value in words."""
        if not np.isfinite(value):
            return "not finite"
        return f"{value:.{self.digits}g}" if self.decades else f"{value:.{self.digits}f}"


MEASURES = {
    "lowest validation loss": Measure(),
    "test loss at the lowest validation loss": Measure(),
    "validation loss": Measure(),
    "validation accuracy": Measure("%", 2),
    "test accuracy": Measure("%", 2),
    "highest test accuracy": Measure("%", 2),
    "test loss": Measure(),
    "lowest test loss": Measure(),
    "train accuracy": Measure("%", 2),
    "train loss": Measure(digits=4),
    "test accuracy over training": Measure("%", 2),
    "rise of the test loss": Measure(),
    "largest first weight": Measure(),
    "largest output weight": Measure(),
    "fallbacks": Measure(digits=0),
    "norm gain change": Measure(),
    "time per step": Measure("ms", decades=True),
    "sharpest transition": Measure(digits=1),
    "curvature": Measure(decades=True, over_runs="pooled mean"),
    "curvature std": Measure(decades=True, over_runs="pooled std"),
    "curvature max": Measure(decades=True, over_runs="largest"),
}


#: what may be drawn over training, with its title and what it is multiplied by
CURVES = {
    "test_accuracy": ("test accuracy, %", 100),
    "validation_loss": ("validation loss", 1),
    "test_loss": ("test loss", 1),
    "train_accuracy": ("train accuracy, %", 100),
    "train_loss": ("train loss", 1),
    "validation_accuracy": ("validation accuracy, %", 100),
    "largest_output_weight": ("largest output weight", 1),
    "largest_first_weight": ("largest first weight", 1),
    "violation": ("violation of the constraint", 1),
    "fallbacks": ("polar factors taken so far", 1),
    "norm_gain_change": ("largest change of a norm's gain", 1),
}


def from_curves(curves: Mapping[str, Array]) -> dict[str, Array]:
    """The measures that curves over training come to.

    Args:
        curves: of shape (points, methods, runs) by name.

    Returns:
        Numbers of shape (methods, runs) by measure.
    """
    last = {name.replace("_", " "): curve[-1] for name, curve in curves.items()}
    shown = {name: value for name, value in last.items() if name in MEASURES}
    return {
        **{name: 100 * value if "accuracy" in name else value for name, value in shown.items()},
        "test accuracy over training": 100 * curves["test_accuracy"].mean(0),
        "rise of the test loss": last["test loss"] - curves["test_loss"].min(0),
    }


def best_of_curves(curves: Mapping[str, Array]) -> dict[str, Array]:
    """The best that curves of loss and accuracy were, at any point.

    Args:
        curves: of shape (points, methods, runs) by name.

    Returns:
        Numbers of shape (methods, runs) by measure. Where there are validation data they choose the point,
        and the test data judge it.
    """
    test = curves["test_loss"]
    if "validation_loss" not in curves:
        return {
            "highest test accuracy": 100 * curves["test_accuracy"].max(0),
            "lowest test loss": test.min(0),
        }
    chosen = curves["validation_loss"].argmin(0)[None]
    return {
        "lowest validation loss": curves["validation_loss"].min(0),
        "test loss at the lowest validation loss": np.take_along_axis(test, chosen, axis=0)[0],
    }


# A loss that no network has which has learned anything: to guess among 33,278 words costs 10.4.
_LOST = 100.0


def over_runs(curves: Array) -> tuple[Array, Array]:
    """Mean and standard deviation over the runs there are, of the last dimension; NaN where there is none."""
    there = np.isfinite(curves)
    count = there.sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(there, curves, 0).sum(-1) / count
        square = np.where(there, (curves - mean[..., None]) ** 2, 0).sum(-1)
        spread = np.sqrt(square / np.maximum(1, count - 1))
    return mean, spread


def readable(losses: Array) -> tuple[float, float] | None:
    """What to show of losses of which some left all bounds, so that the others can be read.

    Args:
        losses: over training, of any shape.

    Returns:
        The lowest and the highest to show; nothing when all of them are readable.
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
