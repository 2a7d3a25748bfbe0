"""The tables of parameters whose elements move one by one."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.constraints.forms import ElementwiseForm
from colangevin.constraints.radius import Radius
from colangevin.kernels.columns import ChunkRow, DigitRow, LineReals, LineRow
from colangevin.step.entry import Entry
from colangevin.step.fused.layout import dimensions, in_order
from colangevin.step.fused.memory import address
from colangevin.step.fused.orders import numbers_of_places
from colangevin.step.fused.rates import copy_values
from colangevin.step.fused.uploads import Uploads
from colangevin.step.native.radii import one_a_copy, radius_table

__all__ = ["LineTable"]


class LineTable:
    """What the elementwise kernels read of their weights, on the device.

    Args:
        entries: the parameters.
        weights: what is moved: the parameters, or tensors of their size in their place.
        upload: brings tables to the device.
        block: elements that a program works on.
        counts: whether a launch adds 1 to the step counts.
        decays: whether weight decay is a part of the gradient. Otherwise the rates have it, which are read
            without waiting for the device.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        weights: Sequence[Tensor],
        upload: Uploads,
        block: int,
        *,
        counts: bool,
        decays: bool = True,
    ) -> None:
        rows: list[LineRow] = []
        reals: list[LineReals] = []
        chunks: list[ChunkRow] = []
        dims = [dimensions(entry) for entry in entries]
        orders = [[] if in_order(each) else numbers_of_places(each) for each in dims]
        #: how many digits lead from places in memory to numbers of elements; 0 where they agree
        self.digits = max(map(len, orders))
        #: whether each element has a radius of its own
        self.radii = any(map(_has_own_radii, entries))
        self._held: list[Tensor] = []  # keeps alive what the rows point to
        for number, (entry, weight, order) in enumerate(zip(entries, weights, orders, strict=True)):
            radii = self._keep(upload.tensor(_laid_out(entry))) if _has_own_radii(entry) else None
            digits = [*order, *[DigitRow(size=1, stride=0)] * (self.digits - len(order))]
            digits_at = self._keep(upload(digits, torch.int32)).data_ptr() if digits else 0
            blocks = range(-(-math.prod(entry.shape) // block))
            for row in _rows(entry, weight, radii, digits_at, number, counts):
                chunks += [ChunkRow(row=len(rows), block=block) for block in blocks]
                rows.append(row)
            reals += _reals(entry, decays)
        self.rows = upload(rows, torch.int64)
        self.reals = upload(reals, torch.float32)
        self.chunks = upload(chunks, torch.int32)
        #: whether everything but the gradients begins at 16 bytes, in lengths that are multiples of 4
        self.aligned = all(
            number % 16 == 0
            for row in rows
            for number in (row.weight, row.momentum, row.position, row.second, 4 * row.elements)
        )

    def _keep(self, tensor: Tensor) -> Tensor:
        self._held.append(tensor)
        return tensor


def _rows(
    entry: Entry, weight: Tensor, radii: Tensor | None, digits_at: int, flag: int, counts: bool
) -> list[LineRow]:
    """A row for each copy of a parameter."""
    numel, state = math.prod(entry.shape), entry.state
    return [
        LineRow(
            weight=address(weight, copy * numel),
            momentum=address(state.get("momentum"), copy * numel),
            position=address(state.get("position"), copy * numel),
            second=address(state.get("second_moment"), copy * numel),
            step=state["step"].data_ptr(),
            radii=address(radii, copy * numel),
            order=digits_at,
            elements=numel,
            word=entry.word,
            # a launch that counts steps makes no noise, and finds a parameter's first copy by its 0
            copy=copy if counts else entry.numbers[copy],
            seed=entry.group["seed"] or 0,
            flag=flag,
            first=0 if entry.window is None else entry.window.first,
        )
        for copy in range(entry.copies)
    ]


def _radius(entry: Entry) -> Radius | None:
    return entry.form.radius if isinstance(entry.form, ElementwiseForm) else None


def _has_own_radii(entry: Entry) -> bool:
    """Whether elements of one copy have radii of their own."""
    radius = _radius(entry)
    return radius is not None and not one_a_copy(radius, entry)


def _laid_out(entry: Entry) -> Tensor:
    """A radius for each element of each copy, in the order of the weight's memory."""
    radius, dims = _radius(entry), dimensions(entry)
    assert radius is not None
    spread = radius_table(radius, entry).view(entry.copies, *entry.shape)
    by_memory = sorted(range(len(dims)), key=lambda k: (-dims[k][1], k))
    return spread.permute(0, *(1 + k for k in by_memory)).contiguous()


def _reals(entry: Entry, decays: bool) -> list[LineReals]:
    """Radius and weight decay of each copy of a parameter."""
    radius = _radius(entry)
    value = 0.0 if radius is None else radius.smallest if _has_own_radii(entry) else radius.value
    radii = [value] * entry.copies if isinstance(value, float) else value.flatten().tolist()
    found = copy_values(entry.group["weight_decay"] if decays else 0.0, entry.copies)
    return [LineReals(radius=r, decay=decay) for r, decay in zip(radii, found, strict=True)]
