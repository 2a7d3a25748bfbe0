"""The step counts of parameters, where no other kernel adds to them."""

import triton
import triton.language as tl

__all__ = ["count_steps"]


@triton.jit
def count_steps(addresses, n, BLOCK: tl.constexpr):
    """Add 1 to the n step counts at the given addresses."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    steps = tl.load(addresses + i, mask=i < n, other=0).to(tl.pointer_type(tl.int64))
    tl.store(steps, tl.load(steps, mask=i < n, other=0) + 1, mask=i < n)
