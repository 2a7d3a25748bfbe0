"""The memory bandwidth of this machine, from a copy."""

import time
from statistics import median

import torch

__all__ = ["copy_bandwidth"]


def copy_bandwidth(device: torch.device, megabytes: int, repeats: int = 20) -> float:
    """Bytes a second that a copy moves, read and written together; the median of some copies.

    Args:
        device: whose memory.
        megabytes: of the source; several times the cache.
        repeats: how many copies.

    Returns:
        Bytes a second.
    """
    source = torch.empty(megabytes * 2**20 // 4, device=device).uniform_()
    target = torch.empty_like(source)
    seconds = []
    for _ in range(repeats + 2):
        if device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            target.copy_(source)
            end.record()
            torch.cuda.synchronize()
            seconds.append(begin.elapsed_time(end) / 1e3)
        else:
            start = time.perf_counter()
            target.copy_(source)
            seconds.append(time.perf_counter() - start)
    return 2 * source.nbytes / median(seconds[2:])  # without the first two, which warm up
