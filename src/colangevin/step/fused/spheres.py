"""Sphere parameters, whose rows move one by one."""

import torch
import triton
from torch import Tensor

from colangevin.constraints.forms import SphereForm
from colangevin.kernels.columns import ChunkRow, SphereRow
from colangevin.kernels.letters import encoded
from colangevin.kernels.sphere import sphere
from colangevin.step.entry import Entry
from colangevin.step.fused.fused import Fused
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.memory import TYPES, address
from colangevin.step.fused.pattern import Pattern
from colangevin.step.fused.rates import copy_values

__all__ = ["SphereMover"]

_TILE = 1024  # entries that a program works on, unless one row has more


class SphereMover(Fused):
    """Sphere parameters, all with slack or all without: one launch for each width of rows."""

    def tabulate(self, pattern: Pattern) -> None:
        rows: list[SphereRow] = []
        decays: list[float] = []
        chunks: dict[tuple[int, bool], list[ChunkRow]] = {}
        self.radii = [self._radii(entry) for entry in self.entries]
        for number, (entry, radii) in enumerate(zip(self.entries, self.radii, strict=True)):
            count, held = entry.configuration_shape
            width = triton.next_power_of_2(held)
            blocks = range(-(-count // _rows_at_a_time(width)))
            mine = _rows(entry, radii, number)
            tiles = chunks.setdefault((width, _aligned(entry, mine[0])), [])
            for row in mine:
                tiles += [ChunkRow(row=len(rows), block=block) for block in blocks]
                rows.append(row)
            decays += copy_values(entry.group["weight_decay"], entry.copies)
        self.table = self.upload(rows, torch.int64)
        self.decays = self.upload(decays, torch.float32)
        self.launches = [
            (self._compose(pattern, len(tiles), width, aligned), self.upload(tiles, torch.int32))
            for (width, aligned), tiles in chunks.items()
        ]

    def _radii(self, entry: Entry) -> Tensor:
        """A radius for each row of each copy of a parameter, on the device."""
        radius = torch.as_tensor(_form(entry).radius.value, dtype=torch.float32)
        rows = entry.configuration_shape[0]
        return self.upload(radius.expand(entry.copies, rows).tolist(), torch.float32)

    def _compose(self, pattern: Pattern, programs: int, width: int, aligned: bool) -> Launch:
        first = self.entries[0]
        return Launch(
            sphere,
            programs,
            LETTERS=encoded(letter for letter, _ in pattern.letters),
            COUNT=len(pattern.letters),
            NOISE=pattern.noisy,
            PARTS=any(entry.window is not None for entry in self.entries),
            VARIES=pattern.varies,
            SLACK=int(_form(first).slack),
            STORED="position" in first.state,
            MAXIMIZE=bool(first.group["maximize"]),
            weight_type=TYPES[first.parameter.dtype],
            grad_type=TYPES[first.grad.dtype],
            ALIGNED=aligned,
            ROWS=_rows_at_a_time(width),
            WIDTH=width,
            num_warps=max(4, min(16, width // 256)),
        )

    def launch(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        for launch, chunks in self.launches:
            launch(self.table, grads, self.decays, chunks, self.flags.table, rates)


def _form(entry: Entry) -> SphereForm:
    assert isinstance(entry.form, SphereForm)
    return entry.form


def _rows_at_a_time(width: int) -> int:
    """How many rows of a width, padded to a power of 2, a program works on."""
    return max(1, _TILE // width)


def _rows(entry: Entry, radii: Tensor, flag: int) -> list[SphereRow]:
    """A row of the table for each copy of a parameter."""
    count, held = entry.configuration_shape
    slack, state = _form(entry).slack, entry.state
    n = held - int(slack)
    padded = [state[key] for key in ("momentum", "position") if key in state and slack]
    stride = padded[0].stride(-2) if padded else held
    return [
        SphereRow(
            weight=address(entry.parameter, copy * count * n),
            momentum=address(state.get("momentum"), copy * count * stride),
            position=address(state.get("position"), copy * count * stride),
            step=state["step"].data_ptr(),
            radii=address(radii, copy * count),
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


def _aligned(entry: Entry, row: SphereRow) -> bool:
    """Whether every row of a parameter, its gradient and its state begins at a multiple of four entries."""
    tensors = (entry.parameter, entry.grad, entry.state.get("momentum"), entry.state.get("position"))
    begin = all(tensor is None or tensor.data_ptr() % 16 == 0 for tensor in tensors)
    return row.entries % 4 == 0 and row.stride % 4 == 0 and begin
