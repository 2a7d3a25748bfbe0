"""The drift a of a matrix's step, and 1/a."""

import triton
import triton.language as tl

from colangevin.kernels.rates import DRIFT, rates_of

__all__ = ["drift_of", "inverse"]


@triton.jit
def drift_of(rates, matrix, VARIES: tl.constexpr):
    """The drift of a matrix; all share one unless ``VARIES``."""
    return tl.load(rates_of(rates, matrix, VARIES) + DRIFT)


@triton.jit
def inverse(a):
    """1/a, or 0 for a = 0."""
    return tl.where(a > 0, 1.0 / tl.where(a > 0, a, 1.0), 0.0)
