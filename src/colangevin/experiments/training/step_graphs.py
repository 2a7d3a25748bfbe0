"""Steps of one training, captured in CUDA graphs where there are any."""

from collections.abc import Callable

import torch

__all__ = ["StepGraphs"]

# Steps of a size that are taken one by one before one is captured: they compile kernels, choose convolutions
# and make the optimizer's state.
_EAGER = 3


class StepGraphs:
    """Take steps of several sizes: the first few of each one by one, all others, on CUDA, from a graph.

    Args:
        device: where.
        capture: whether on CUDA a graph can hold a step; otherwise all are taken one by one.
    """

    def __init__(self, device: torch.device, *, capture: bool = True) -> None:
        self._capture = capture and device.type == "cuda"
        self._taken: dict[int, int] = {}  # steps of each size that were taken one by one
        #: the graph of each size
        self.captured: dict[int, torch.cuda.CUDAGraph] = {}

    def take(self, step: Callable[[int], None], size: int) -> None:
        """Take the next step.

        Args:
            step: takes a step of a size without waiting for the device; the same at every call.
            size: of the step.
        """
        if size in self.captured:
            self.captured[size].replay()
        elif self._capture and self._taken.get(size, 0) == _EAGER:
            graph = torch.cuda.CUDAGraph()
            # graphs of several sizes take turns, so they can share their memory
            pool = next(iter(self.captured.values())).pool() if self.captured else None
            with torch.cuda.graph(graph, pool=pool):
                step(size)
            self.captured[size] = graph
            graph.replay()
        else:
            step(size)
            self._taken[size] = self._taken.get(size, 0) + 1
