"""Sphere parameters, whose rows move one by one."""

import torch
import triton
from torch import Tensor

from colangevin.constraints import Sphere
from colangevin.kernels.columns import ChunkRow, SphereRow
from colangevin.kernels.letters import encoded
from colangevin.kernels.sphere import sphere
from colangevin.optim.entry import Entry
from colangevin.step.fused.form import Form
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.memory import TYPES, address
from colangevin.step.fused.mover import Fused
from colangevin.step.fused.rates import copy_values

__all__ = ["SphereMover"]

_TILE = 1024  # entries that a program works on, unless one row has more


class SphereMover(Fused):
    """Sphere parameters, all with slack or all without: one launch for each width of rows."""

    def tabulate(self, form: Form) -> None:
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
            (self._compose(form, len(tiles), width, aligned), self.upload(tiles, torch.int32))
            for (width, aligned), tiles in chunks.items()
        ]

    def _radii(self, entry: Entry) -> Tensor:
        """A radius for each row of each copy of a parameter, on the device."""
        assert isinstance(entry.constraint, Sphere)
        radius = torch.as_tensor(entry.constraint.radius, dtype=torch.float32)
        rows = entry.configuration_shape[0]
        return self.upload(radius.expand(entry.copies, rows).tolist(), torch.float32)

    def _compose(self, form: Form, programs: int, width: int, aligned: bool) -> Launch:
        first = self.entries[0]
        assert isinstance(first.constraint, Sphere)
        return Launch(
            sphere,
            programs,
            LETTERS=encoded(letter for letter, _ in form.letters),
            COUNT=len(form.letters),
            NOISE=form.noisy,
            VARIES=form.varies,
            SLACK=int(first.constraint.slack),
            STORED="position" in first.state,
            MAXIMIZE=bool(first.group["maximize"]),
            weight_type=TYPES[first.parameter.dtype],
            grad_type=TYPES[first.grad.dtype],
            ALIGNED=aligned,
            ROWS=_rows_at_a_time(width),
            WIDTH=width,
            num_warps=max(4, min(16, width // 256)),
        )

    def launch(self, form: Form, grads: Tensor, rates: Tensor) -> None:
        for launch, chunks in self.launches:
            launch(self.table, grads, self.decays, chunks, self.flags.table, rates)


def _rows_at_a_time(width: int) -> int:
    """How many rows of a width, padded to a power of 2, a program works on."""
    return max(1, _TILE // width)


def _rows(entry: Entry, radii: Tensor, flag: int) -> list[SphereRow]:
    """A row of the table for each copy of a parameter."""
    assert isinstance(entry.constraint, Sphere)
    count, held = entry.configuration_shape
    slack, state = entry.constraint.slack, entry.state
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
            parameter=entry.index,
            copy=entry.numbers[copy],
            seed=entry.group["seed"] or 0,
            flag=flag,
        )
        for copy in range(entry.copies)
    ]


def _aligned(entry: Entry, row: SphereRow) -> bool:
    """Whether every row of a parameter, its gradient and its state begins at a multiple of four entries."""
    tensors = (entry.parameter, entry.grad, entry.state.get("momentum"), entry.state.get("position"))
    begin = all(tensor is None or tensor.data_ptr() % 16 == 0 for tensor in tensors)
    return row.entries % 4 == 0 and row.stride % 4 == 0 and begin
