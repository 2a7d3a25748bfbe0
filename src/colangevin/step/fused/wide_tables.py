"""The tables of parameters whose rows are too long for one program."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colangevin.kernels.columns import ChunkRow, SphereRow, WideRow
from colangevin.kernels.spheres.edits import lift, look, mend
from colangevin.kernels.spheres.wide import PARTS_OF_A_PIECE
from colangevin.step.entry import Entry
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.memory import TYPES
from colangevin.step.fused.sphere_tables import digits_of, form_of, is_alike, side_by_side, sphere_rows
from colangevin.step.fused.uploads import Uploads
from colangevin.step.native.radii import radius_table

__all__ = ["WideCut", "WideTable"]

_PIECE = 4096  # entries of a row that a program works on
_WARPS = 8
_AT_ONCE = 64  # pieces whose sums are added up together


@dataclass(frozen=True)
class WideCut:
    """How long rows lie in memory: what one launch of a kernel has in common."""

    outer: int  # digits of the place of a row
    inner: int
    alike: bool


class WideTable:
    """What the kernels of long rows read of their weights, on the device.

    Args:
        entries: the parameters; all with slack or all without.
        upload: brings tables to the device.
    """

    def __init__(self, entries: Sequence[Entry], upload: Uploads) -> None:
        rows: list[SphereRow] = []
        wide: list[WideRow] = []
        by_piece: dict[WideCut, list[ChunkRow]] = {}
        by_row: list[ChunkRow] = []
        self._held: list[Tensor] = []  # keeps alive what the rows point to
        first_row = first_piece = 0
        for number, entry in enumerate(entries):
            count, held = entry.configuration_shape
            pieces = -(-(held - int(form_of(entry).slack)) // _PIECE)
            radii = self._keep(upload.tensor(radius_table(form_of(entry).radius, entry)))
            outer, inner = digits_of(entry)
            digits_at = [self._keep(upload(each, torch.int32)).data_ptr() for each in (outer, inner) if each]
            chunks = by_piece.setdefault(WideCut(len(outer), len(inner), is_alike(entry)), [])
            blocks = list(range(count * pieces))
            if side_by_side(outer):  # pieces of neighbouring rows share the memory that they fetch
                blocks = [k % count * pieces + k // count for k in blocks]
            for row in sphere_rows(entry, radii, digits_at or [0, 0], number):
                chunks += [ChunkRow(row=len(rows), block=block) for block in blocks]
                by_row += [ChunkRow(row=len(rows), block=block) for block in range(count)]
                rows.append(row)
                wide.append(WideRow(first_row=first_row, first_piece=first_piece, pieces=pieces))
                first_row += count
                first_piece += count * pieces
        self.rows = upload(rows, torch.int64)
        self.wide = upload(wide, torch.int64)
        #: the pieces of each launch of a kernel that works on pieces
        self.pieces = {cut: upload(each, torch.int32) for cut, each in by_piece.items()}
        #: those of a kernel that works on rows
        self.all_rows = upload(by_row, torch.int32)
        room = int(PARTS_OF_A_PIECE.value)
        self.partials = torch.zeros(first_piece, room, dtype=torch.float64, device=upload.device)
        self.coefficients = torch.zeros(first_row, room, dtype=torch.float64, device=upload.device)
        first = entries[0]
        self._type = TYPES[first.parameter.dtype]
        self._slack = int(form_of(first).slack)
        self._edits = self._look_for_edits(upload) if "position" in first.state else None

    def _keep(self, tensor: Tensor) -> Tensor:
        self._held.append(tensor)
        return tensor

    def of_pieces(self, kernel: Any, **constants: Any) -> list[tuple[Launch, Tensor]]:
        """Launches of a kernel that works on pieces, each with its pieces."""
        return [
            (
                Launch(
                    kernel,
                    len(chunks),
                    **constants,
                    PIECE=_PIECE,
                    OUTER=cut.outer,
                    INNER=cut.inner,
                    ALIKE=cut.alike,
                    num_warps=_WARPS,
                ),
                chunks,
            )
            for cut, chunks in self.pieces.items()
        ]

    def of_rows(self, kernel: Any, **constants: Any) -> Launch:
        """The launch of a kernel that works on rows."""
        return Launch(kernel, len(self.all_rows), **constants, AT_ONCE=_AT_ONCE, num_warps=4)

    def _look_for_edits(self, upload: Uploads) -> Any:
        partials, factors = torch.zeros_like(self.partials), torch.zeros_like(self.coefficients)
        looks = self.of_pieces(look, weight_type=self._type)
        lifts = self.of_rows(lift, SLACK=self._slack)
        mends = self.of_pieces(mend, weight_type=self._type)

        def edits() -> None:
            for launch, chunks in looks:
                launch(self.rows, self.wide, chunks, partials)
            lifts(self.rows, self.wide, self.all_rows, partials, factors)
            for launch, chunks in mends:
                launch(self.rows, self.wide, chunks, factors)

        return edits

    def take_up_edits(self) -> None:
        """Make the stored positions of weights anew that others wrote."""
        if self._edits is not None:
            self._edits()
