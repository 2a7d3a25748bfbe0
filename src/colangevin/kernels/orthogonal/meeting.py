"""A barrier for all programs of a launch."""

import triton
import triton.language as tl

__all__ = ["meet"]


@triton.jit
def meet(arrivals, turn):
    """Wait until every program has been here ``turn`` times. What they wrote before can then be read."""
    tl.debug_barrier()  # every thread of this program has written
    tl.atomic_add(arrivals, 1)
    while tl.atomic_add(arrivals, 0) < turn * tl.num_programs(0):
        pass
    tl.debug_barrier()
