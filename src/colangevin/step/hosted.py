"""Movers whose parameters the host looks at: whether anybody else wrote them, and how many steps they took.

torch counts most writes in a tensor's version. A write through ``.data`` is not counted. On the CPU it shows
in a checksum, which costs a pass over memory. On a device there is no checksum.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from colangevin.dynamics import Dynamics
from colangevin.step.entry import Entry
from colangevin.step.mover import Mover
from colangevin.surroundings import lasting

__all__ = ["Hosted", "remember", "untouched"]

# So many elements are summed against one ramp: few enough that rounding hides no edit of a single element by
# more than about 1e-5 of the largest in float32, and enough for the sums to cost little more than reading.
_ROW = 4096


class Hosted(Mover):
    """What the paths of plain torch share."""

    #: whether the segment that was prepared completes a step
    completes: bool

    def doubtful(self, dynamics: Sequence[Dynamics], segment: int) -> list[Entry]:
        return self.entries

    def edited(self) -> list[Entry]:
        for entry in self.entries:
            entry.untouched = untouched(entry)
        return [entry for entry in self.entries if not entry.untouched]

    def finish(self) -> None:
        if self.completes:
            for entry in self.entries:
                entry.begin_count()
            torch._foreach_add_([entry.state["step"] for entry in self.entries], 1)
        remember(self.entries)


def untouched(entry: Entry) -> bool:
    """Whether a parameter looks as it did after its last step."""
    same = entry.stamp == entry.versions
    return same and all(map(torch.equal, entry.sums, _checksum(entry)))


def remember(entries: Sequence[Entry]) -> None:
    """Note what parameters look like after a step."""
    for entry in entries:
        entry.stamp, entry.sums = entry.versions, _checksum(entry)


def _checksum(entry: Entry) -> tuple[Tensor, ...]:
    """Sums over a weight that see its values, their signs and their order, in one pass."""
    if entry.parameter.device.type != "cpu" or entry.manifold.free:
        return ()
    flat = entry.weight.detach().reshape(-1).to(entry.dtype)
    whole = entry.numel // _ROW * _ROW
    last = flat[whole:].dot(_ramp(entry.numel - whole, flat.dtype))
    return (flat[:whole].view(-1, _ROW).mv(_ramp(_ROW, flat.dtype)), last) if whole else (last,)


@lru_cache(maxsize=256)
@lasting
def _ramp(count: int, dtype: torch.dtype) -> Tensor:
    return torch.linspace(1, 2, count, dtype=dtype, device="cpu")
