"""Reading circle weights: the stored angle, or the weight itself where others have written it."""

import triton
import triton.language as tl

from colangevin.kernels.trigonometry import asin, sincos

__all__ = ["read_circle"]

_EDIT_ULPS = tl.constexpr(4 * 1.1920928955078125e-07)  # as Circle.reconcile
_TINY = tl.constexpr(1.1754943508222875e-38)  # smallest normal float32
_PI = tl.constexpr(3.141592653589793)
_LINE = tl.constexpr(32)  # first weights of a block, which are compared with their angles in every step


@triton.jit
def _edited(theta, x, r, weight_type: tl.constexpr):
    """Where a weight theta is not r x, the one of the stored angle."""
    if weight_type == tl.float32:
        return tl.abs(theta - r * x) > tl.abs(theta) * _EDIT_ULPS + _TINY
    else:
        return theta != (r * x).to(weight_type).to(tl.float32)


@triton.jit
def read_circle(weight_at, position_at, i, inside, r, TRUSTED: tl.constexpr, weight_type: tl.constexpr):
    """Weight, angle, sine and cosine of a block. Where a weight was edited, its angle is made anew."""
    beta = tl.load(position_at + i, mask=inside, other=0.0)
    x, y = sincos(beta)
    theta = (r * x).to(weight_type).to(tl.float32)
    # A trusted block is compared in its first weights only, and read in full if one of them was edited: an
    # edit that torch does not count, through .data, mostly changes a whole tensor.
    looked_at = inside
    if TRUSTED:
        looked_at = inside & (i < _LINE)
    seen = tl.load(weight_at + i, mask=looked_at, other=0.0).to(tl.float32)
    edited = looked_at & _edited(seen, x, r, weight_type)
    if tl.max(edited.to(tl.int32), 0) > 0:
        theta = tl.load(weight_at + i, mask=inside, other=0.0).to(tl.float32)
        edited = inside & _edited(theta, x, r, weight_type)
        behind = y < 0  # xi < 0: more than a right angle from the slack axis; the new angle stays there
        x = tl.where(edited, tl.minimum(tl.maximum(theta / r, -1.0), 1.0), x)
        lifted = asin(x)
        lifted = tl.where(behind, tl.where(lifted < 0, -_PI, _PI) - lifted, lifted)
        flat = tl.sqrt(1.0 - x * x)
        beta = tl.where(edited, lifted, beta)
        y = tl.where(edited, tl.where(behind, -flat, flat), y)
    return theta, beta, x, y
