"""Region: the block of a whole tensor that one process holds."""

import math
from dataclasses import dataclass

from colangevin.noise import Window

__all__ = ["Region"]


@dataclass(frozen=True)
class Region:
    """A block of a tensor.

    Attributes:
        whole: the shape of the tensor.
        start: where the block begins in each dimension.
        shape: of the block.
    """

    whole: tuple[int, ...]
    start: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        """How many elements the block has."""
        return math.prod(self.shape)

    @property
    def slices(self) -> tuple[slice, ...]:
        """What picks the block out of the tensor."""
        return tuple(slice(a, a + n) for a, n in zip(self.start, self.shape, strict=True))

    @property
    def cut(self) -> list[int]:
        """The dimensions of which the block has a part only."""
        return [d for d, (n, m) in enumerate(zip(self.shape, self.whole, strict=True)) if n != m]

    def window(self) -> Window | None:
        """The numbers that the block's elements have in the whole; None where no window says them.

        A window has runs of one length at one distance. That is every block of a matrix, and of any tensor
        that is cut along dimension 0 and one more.

        Returns:
            The window.
        """
        if not self.numel:
            return Window(0, 1, 1)
        last = self.cut[-1] if self.cut else 0
        inner = math.prod(self.whole[last + 1 :])
        # the runs are at one distance, unless a dimension between the first with several entries and the last
        # that is cut is cut too
        several = next((d for d, n in enumerate(self.shape) if n > 1), last)
        if any(several < d < last for d in self.cut):
            return None
        strides = [math.prod(self.whole[d + 1 :]) for d in range(len(self.whole))]
        first = sum(a * stride for a, stride in zip(self.start, strides, strict=True))
        if not self.whole:
            return Window(0, 1, 1)
        return Window(first, self.shape[last] * inner, self.whole[last] * inner)
