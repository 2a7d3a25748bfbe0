"""Where the numbers of a step stand in the table of rates."""

import triton
import triton.language as tl

from colangevin.kernels.columns import RateRow, column, width

__all__ = ["DECAY", "DRIFT", "KICK", "NOISE_SCALE", "rates_of"]

DRIFT = column(RateRow, "drift")
KICK = column(RateRow, "kick")
DECAY = column(RateRow, "decay")
NOISE_SCALE = column(RateRow, "noise_scale")
_WIDTH = width(RateRow)


@triton.jit
def rates_of(rates, weight, VARIES: tl.constexpr):
    """The row of rates of a weight; all weights share one row unless ``VARIES``."""
    return rates + weight * _WIDTH * VARIES
