"""Reading and stopping weights that are squares of roots."""

import triton
import triton.language as tl

__all__ = ["read_square", "stopped"]

_LINE = tl.constexpr(32)  # first weights of a block, which are compared with their roots in every step
# Powers of two at which roots stop: there is room for the cube of a root, which is the force of weight decay,
# and its square is a number of the weight's dtype.
_FARTHEST = tl.constexpr(4294967296.0)
_FARTHEST_OF_FLOAT16 = tl.constexpr(128.0)


@triton.jit
def read_square(weight_at, position_at, i, inside, TRUSTED: tl.constexpr, weight_type: tl.constexpr):
    """Weight and root of a block. Where a weight was edited, its root is made anew, with the sign it had."""
    q = tl.load(position_at + i, mask=inside, other=0.0)
    theta = (q * q).to(weight_type).to(tl.float32)
    # as circles are read: a trusted block in full only if one of its first weights was edited
    looked_at = inside
    if TRUSTED:
        looked_at = inside & (i < _LINE)
    seen = tl.load(weight_at + i, mask=looked_at, other=0.0).to(tl.float32)
    edited = looked_at & (seen != theta)
    if tl.max(edited.to(tl.int32), 0) > 0:
        seen = tl.load(weight_at + i, mask=inside, other=0.0).to(tl.float32)
        edited = inside & (seen != theta)
        root = tl.sqrt_rn(tl.maximum(seen, 0.0))
        q = tl.where(edited, tl.where(q < 0, -root, root), q)
        theta = seen
    return theta, q


@triton.jit
def stopped(q, weight_type: tl.constexpr):
    """Roots no farther from 0 than their squares may be."""
    if weight_type == tl.float16:
        q = tl.minimum(tl.maximum(q, -_FARTHEST_OF_FLOAT16), _FARTHEST_OF_FLOAT16)
    else:
        q = tl.minimum(tl.maximum(q, -_FARTHEST), _FARTHEST)
    return q
