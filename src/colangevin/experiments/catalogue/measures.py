"""The numbers that a training comes to, each by a name that claims and tables use."""

import math
from dataclasses import dataclass
from typing import Literal

__all__ = ["MEASURES", "Measure"]


@dataclass(frozen=True)
class Measure:
    """How to show and to compare a number.

    Attributes:
        unit: printed after it.
        digits: after the point, or significant ones for what spans decades.
        decades: whether it spans decades; then methods are compared by ratio, and runs by geometric mean.
        higher_is_better: which of several baselines is the best.
        over_runs: what a table shows of several runs. Pooled moments are over all points of all boundaries
            together, as the paper has them for the curvature.
    """

    unit: str = ""
    digits: int = 3
    decades: bool = False
    higher_is_better: bool = False
    over_runs: Literal["mean", "pooled mean", "pooled std", "largest"] = "mean"

    def format(self, value: float) -> str:
        """A value in words."""
        if not math.isfinite(value):
            return "not finite"
        return f"{value:.{self.digits}g}" if self.decades else f"{value:.{self.digits}f}"


MEASURES = {
    "lowest validation loss": Measure(),
    "test loss at the lowest validation loss": Measure(),
    "validation loss": Measure(),
    "validation accuracy": Measure("%", 2, higher_is_better=True),
    "validation bits": Measure(digits=4),
    "test bits": Measure(digits=4),
    "test accuracy": Measure("%", 2, higher_is_better=True),
    "highest test accuracy": Measure("%", 2, higher_is_better=True),
    "test loss": Measure(),
    "lowest test loss": Measure(),
    "agreement": Measure("%", 2, higher_is_better=True),
    "total variation": Measure(digits=4),
    "calibration error": Measure(digits=4),
    "weight norm": Measure(digits=1),
    "train accuracy": Measure("%", 2, higher_is_better=True),
    "train loss": Measure(digits=4),
    "test accuracy over training": Measure("%", 2, higher_is_better=True),
    "rise of the test loss": Measure(),
    "largest first weight": Measure(),
    "largest output weight": Measure(),
    "hidden norm": Measure(),
    "fallbacks": Measure(digits=0),
    "norm gain change": Measure(),
    "time per step": Measure("ms", decades=True),
    "sharpest transition": Measure(digits=1),
    "curvature": Measure(decades=True, over_runs="pooled mean"),
    "curvature std": Measure(decades=True, over_runs="pooled std"),
    "curvature max": Measure(decades=True, over_runs="largest"),
}
