"""The drift a of a step."""

import triton
import triton.language as tl

__all__ = ["inverse"]


@triton.jit
def inverse(a):
    """1/a, or 0 for 0."""
    return tl.where(a > 0, 1.0 / tl.where(a > 0, a, 1.0), 0.0)
