"""The numbers that a training comes to, each by a name that claims and tables use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["MEASURES", "Measure", "from_curves", "summary"]

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
    "test accuracy": Measure("%", 2),
    "test loss": Measure(),
    "train accuracy": Measure("%", 2),
    "train loss": Measure(digits=4),
    "test accuracy over training": Measure("%", 2),
    "rise of the test loss": Measure(),
    "largest first weight": Measure(),
    "largest output weight": Measure(),
    "sharpest transition": Measure(digits=1),
    "curvature": Measure(decades=True, over_runs="pooled mean"),
    "curvature std": Measure(decades=True, over_runs="pooled std"),
    "curvature max": Measure(decades=True, over_runs="largest"),
}


def from_curves(curves: Mapping[str, Array]) -> dict[str, Array]:
    """The measures that curves over training come to.

    Args:
        curves: of shape (points, methods, runs) by name.

    Returns:
        Numbers of shape (methods, runs) by measure.
    """
    last: Callable[[str], Array] = lambda name: curves[name][-1]  # noqa: E731
    return {
        "test accuracy": 100 * last("test_accuracy"),
        "test loss": last("test_loss"),
        "train accuracy": 100 * last("train_accuracy"),
        "train loss": last("train_loss"),
        "test accuracy over training": 100 * curves["test_accuracy"].mean(0),
        "rise of the test loss": last("test_loss") - curves["test_loss"].min(0),
        "largest first weight": last("largest_first_weight"),
        "largest output weight": last("largest_output_weight"),
    }


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
