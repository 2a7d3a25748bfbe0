"""The tables of parameters whose rows move one by one."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from colangevin.constraints.forms import SimplexForm, SphereForm
from colangevin.constraints.radius import Radius
from colangevin.constraints.slices import Slices
from colangevin.kernels.columns import ChunkRow, DigitRow, SphereRow
from colangevin.step.entry import Entry
from colangevin.step.fused.layout import dimensions, in_order
from colangevin.step.fused.memory import address
from colangevin.step.fused.orders import places_of_slices
from colangevin.step.fused.uploads import Uploads
from colangevin.step.native.radii import radius_table

__all__ = ["Cut", "SphereTable", "digits_of", "form_of", "is_alike", "side_by_side", "sphere_rows"]

_TILE = 1024  # entries that a program works on, unless one row has more
# Rows whose entries lie side by side are moved together, up to so many entries: one alone would use a few
# bytes of every piece of memory that it fetches.
_SIDE_BY_SIDE, _LARGEST_TILE = 8, 1 << 14


@dataclass(frozen=True)
class Cut:
    """How weights are cut into tiles of rows: what one launch of a kernel has in common."""

    width: int  # entries of a row, padded to a power of 2
    rows: int  # of a tile
    aligned: bool
    outer: int  # digits of the place of a row
    inner: int
    turned: bool
    alike: bool

    @property
    def constants(self) -> dict[str, int]:
        """The arguments of a sphere kernel that depend on it."""
        return {
            "ALIGNED": self.aligned,
            "OUTER": self.outer,
            "INNER": self.inner,
            "TURNED": self.turned,
            "ALIKE": self.alike,
            "ROWS": self.rows,
            "WIDTH": self.width,
        }

    def warps(self, entries: int = 256, fewest: int = 4) -> int:
        """How many warps a program runs on, for so many entries of each."""
        together = (self.rows if self.turned else 1) * self.width
        return max(fewest, min(16, together // entries))


class SphereTable:
    """What the sphere kernels read of their weights, on the device.

    Args:
        entries: the parameters; all with slack or all without.
        upload: brings tables to the device.
    """

    def __init__(self, entries: Sequence[Entry], upload: Uploads) -> None:
        rows: list[SphereRow] = []
        tiles: dict[Cut, list[ChunkRow]] = {}
        self._held: list[Tensor] = []  # keeps alive what the rows point to
        for number, entry in enumerate(entries):
            radii = self._keep(upload.tensor(radius_table(form_of(entry).radius, entry)))
            outer, inner = digits_of(entry)
            digits_at = [self._keep(upload(each, torch.int32)).data_ptr() for each in (outer, inner) if each]
            cut = _cut(entry, outer, inner)
            mine = sphere_rows(entry, radii, digits_at or [0, 0], number)
            blocks = range(-(-entry.configuration_shape[0] // cut.rows))
            chunks = tiles.setdefault(cut, [])
            for row in mine:
                chunks += [ChunkRow(row=len(rows), block=block) for block in blocks]
                rows.append(row)
        self.rows = upload(rows, torch.int64)
        #: the tiles of each launch
        self.chunks = {cut: upload(each, torch.int32) for cut, each in tiles.items()}

    def _keep(self, tensor: Tensor) -> Tensor:
        self._held.append(tensor)
        return tensor


def form_of(entry: Entry) -> SphereForm:
    """The form of a parameter on spheres; that of the roots of one on simplices."""
    if isinstance(entry.form, SimplexForm):
        return SphereForm(Radius(1.0), slack=False, slices=Slices(entry.shape, "rows"))
    assert isinstance(entry.form, SphereForm)
    return entry.form


def digits_of(entry: Entry) -> tuple[list[DigitRow], list[DigitRow]]:
    """The digits of the places of rows and entries; none where they follow one another."""
    dims, slices = dimensions(entry), form_of(entry).slices
    if slices.in_order and in_order(dims):
        return [], []
    return places_of_slices(dims, slices)


def _cut(entry: Entry, outer: list[DigitRow], inner: list[DigitRow]) -> Cut:
    _, held = entry.configuration_shape
    width = triton.next_power_of_2(held)
    rows = max(1, _TILE // width)
    turned = side_by_side(outer)
    if turned:
        rows = max(rows, min(_SIDE_BY_SIDE, max(1, _LARGEST_TILE // width)))
    return Cut(width, rows, _aligned(entry), len(outer), len(inner), turned, is_alike(entry) and bool(inner))


def side_by_side(outer: Sequence[DigitRow]) -> bool:
    """Whether the entries of neighbouring rows are neighbours in memory."""
    return len(outer) == 1 and outer[0].stride == 1 < outer[0].size


def is_alike(entry: Entry) -> bool:
    """Whether the state lies as the weight does, rather than row after row."""
    form = form_of(entry)
    return not form.slack and form.slices.in_order


def sphere_rows(entry: Entry, radii: Tensor, digits_at: Sequence[int], flag: int) -> list[SphereRow]:
    """A row of the table for each copy of a parameter."""
    count, held = entry.configuration_shape
    slack, state = form_of(entry).slack, entry.state
    n, stride = held - int(slack), _stride(entry)
    outer, inner = digits_at
    return [
        SphereRow(
            weight=address(entry.parameter, copy * count * n),
            momentum=address(state.get("momentum"), copy * count * stride),
            position=address(state.get("position"), copy * count * stride),
            second=address(state.get("second_moment"), copy * count * stride),
            step=state["step"].data_ptr(),
            radii=address(radii, copy * count),
            outer=outer,
            inner=inner,
            rows=count,
            entries=n,
            stride=stride,
            word=entry.word,
            copy=entry.numbers[copy],
            seed=entry.group["seed"] or 0,
            flag=flag,
            first=0 if entry.window is None else entry.window.first // n,
        )
        for copy in range(entry.copies)
    ]


def _stride(entry: Entry) -> int:
    """How far apart rows of the state begin."""
    _, held = entry.configuration_shape
    padded = [each for key, each in entry.state.items() if key != "step" and form_of(entry).slack]
    return padded[0].stride(-2) if padded else held


def _aligned(entry: Entry) -> bool:
    """Whether every row of a parameter, its gradient and its state begins at a multiple of four entries."""
    _, held = entry.configuration_shape
    state = (tensor for key, tensor in entry.state.items() if key != "step")
    begin = all(tensor.data_ptr() % 16 == 0 for tensor in (entry.parameter, entry.grad, *state))
    return (held - int(form_of(entry).slack)) % 4 == 0 and _stride(entry) % 4 == 0 and begin
