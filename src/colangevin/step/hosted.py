"""Movers whose parameters the host looks at: whether anybody else wrote them, and how many steps they took.

torch counts most writes in a tensor's version. A write through ``.data`` is not counted. On the CPU it shows
in a checksum, which costs a pass over memory. Large circle weights, whose step is only a few passes, are
sampled: 32 of every 256 elements. On a device there is no checksum.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from colangevin.constraints.forms import ElementwiseForm
from colangevin.step.entry import Entry
from colangevin.step.mover import Mover
from colangevin.surroundings import lasting

__all__ = ["Hosted", "remember"]

# A row of this many elements is summed against one ramp, and so many of the row's first elements enter the
# sum. 4096: few enough that rounding hides no edit of a single element by more than about 1e-5 of the largest
# in float32, and enough for the sums to cost no more than reading the weight.
_DENSE, _SPARSE = (4096, 4096), (256, 32)
# Elements from which on a circle weight is sampled.
_LARGE = 1 << 16


class Hosted(Mover):
    """What the paths of plain torch share."""

    #: whether the segment that was prepared completes a step
    completes: bool

    def edited(self) -> list[Entry]:
        for entry in self.entries:
            same = entry.stamp == _stamp(entry)
            entry.untouched = same and all(map(torch.equal, entry.sums, _checksum(entry)))
        return [entry for entry in self.entries if not entry.untouched]

    def finish(self) -> None:
        if self.completes:
            for entry in self.entries:
                if "step" not in entry.state:
                    entry.begin_count()
            torch._foreach_add_([entry.state["step"] for entry in self.entries], 1)
        remember(self.entries)


def remember(entries: Sequence[Entry]) -> None:
    """Note what parameters look like after a step."""
    for entry in entries:
        entry.stamp, entry.sums = _stamp(entry), _checksum(entry)


def _stamp(entry: Entry) -> tuple[int, int]:
    """Changes when the parameter is replaced or written in torch's sight."""
    return entry.parameter._version, entry.parameter.data_ptr()


def _checksum(entry: Entry) -> tuple[Tensor, ...]:
    """Sums over a weight that see its values, their signs and their order, in one pass."""
    if entry.parameter.device.type != "cpu" or entry.manifold.free:
        return ()
    sampled = entry.numel > _LARGE and isinstance(entry.form, ElementwiseForm)
    row, summed = _SPARSE if sampled else _DENSE
    flat = entry.parameter.detach().reshape(-1).to(entry.dtype)
    if entry.numel < row:
        return (flat.dot(_ramp(entry.numel, flat.dtype)),)
    whole = entry.numel // row * row
    last = flat[whole:].dot(_ramp(entry.numel - whole, flat.dtype))
    return flat[:whole].view(-1, row)[:, :summed].mv(_ramp(summed, flat.dtype)), last


@lru_cache(maxsize=256)
@lasting
def _ramp(count: int, dtype: torch.dtype) -> Tensor:
    return torch.linspace(1, 2, count, dtype=dtype, device="cpu")
