"""Muon of free matrices and of matrices on spheres: those of one shape are orthogonalised together."""

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from colangevin.constraints.forms import SphereForm
from colangevin.dynamics import Dynamics, Muon, newton_schulz
from colangevin.dynamics.rates import Scalar
from colangevin.kernels.columns import MuonReals, MuonRow
from colangevin.kernels.muon import average, mean_turn, overlaps, turn
from colangevin.step.entry import Entry
from colangevin.step.fused.fused import Fused
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.memory import TYPES, address
from colangevin.step.fused.orthogonalise import Orthogonaliser
from colangevin.step.fused.pattern import Pattern

__all__ = ["MuonMover", "Stacked"]

_CHUNK = 4096  # entries that a program works on, at most
_SLICES = 1024  # whose lengths a program reads at a time


class Stacked(Fused):
    """What Muon's movers share: parameters with one kind of step, and the numbers of each."""

    def prepare(self, dynamics: Sequence[Dynamics], segment: int) -> None:
        if dynamics is not self._dynamics:
            self.muons = [dynamics[entry.group_index] for entry in self.entries]
            self._reals: Tensor | None = None
        super().prepare(dynamics, segment)

    def _follow(self, dynamics: Sequence[Dynamics]) -> None:
        self._dynamics = dynamics
        self._pattern = Pattern(letters=(), noisy=False, varies=True)

    def _make_state(self, entry: Entry) -> None:
        entry.allocate("momentum")
        super()._make_state(entry)

    @property
    def muon(self) -> Muon:
        """The step of the first parameter; the others differ from it in numbers only."""
        assert isinstance(self.muons[0], Muon)  # eligible.py lets no other through
        return self.muons[0]

    def advance(self) -> None:
        stored = [entry for entry in self.entries if "position" in entry.state]
        positions = [entry.state["position"] for entry in stored]
        for entry, position in zip(stored, positions, strict=True):
            # as Manifold.reconcile, without asking the device whether there is an edit
            edited = position.to(entry.parameter.dtype) != entry.parameter
            position.copy_(torch.where(edited, entry.parameter.to(position.dtype), position))
        self.launch(self._pattern, self._grads, self._table_of_reals())
        if stored:
            # by .data, which torch does not count: it would look like an edit, and the host would check it
            torch._foreach_copy_([entry.parameter.data for entry in stored], positions)

    def _table_of_reals(self) -> Tensor:
        """A row for each matrix; made once while all numbers are floats."""
        if self._reals is not None:
            return self._reals
        rows = [
            (_reals(muon, entry), entry.copies)
            for muon, entry in zip(self.muons, self.entries, strict=True)
            if isinstance(muon, Muon)
        ]
        if any(isinstance(value, Tensor) for row, _ in rows for value in row):
            return torch.cat([self._on_device(row, copies) for row, copies in rows])
        table = [row for row, copies in rows for _ in range(copies)]
        self._reals = self.upload(table, torch.float32)
        return self._reals

    def _on_device(self, row: Sequence[Scalar], copies: int) -> Tensor:
        """A row for each copy, of numbers some of which lie in tensors."""
        # a CUDA graph can record a fill, but not a number on its way from the host
        columns = [
            value.to(device=self.device, dtype=torch.float32)
            if isinstance(value, Tensor)
            else torch.full((), value, dtype=torch.float32, device=self.device)
            for value in row
        ]
        return torch.stack([column.expand(copies) for column in columns], 1)

    def rows(self, radii: Tensor | None) -> list[MuonRow]:
        """A row of the table for each copy of a parameter.

        Args:
            radii: on the device, one for each slice of each matrix; None without any.

        Returns:
            The rows.
        """
        rows: list[MuonRow] = []
        slices = 0 if radii is None else radii.numel() // sum(entry.copies for entry in self.entries)
        for flag, entry in enumerate(self.entries):
            for copy in range(entry.copies):
                first = copy * entry.size
                rows.append(
                    MuonRow(
                        weight=address(entry.parameter, first),
                        momentum=address(entry.state["momentum"], first),
                        position=address(entry.state.get("position"), first),
                        radii=address(radii, len(rows) * slices),
                        flag=flag,
                    )
                )
        return rows


class MuonMover(Stacked):
    """Free matrices, or matrices whose rows, or which as a whole, have fixed norms; all of one shape."""

    @property
    def matrix_shape(self) -> tuple[int, int, int]:
        """Of the stack of all matrices."""
        return sum(entry.copies for entry in self.entries), *self.entries[0].manifold.matrix_shape

    def tabulate(self, pattern: Pattern) -> None:
        first, (count, _, _) = self.entries[0], self.matrix_shape
        radii = self._radii()
        slices, length = (1, first.size) if radii is None else first.configuration_shape
        self.table = self.upload(self.rows(radii), torch.int64)
        self._held_radii = radii
        block = min(_CHUNK, triton.next_power_of_2(length))
        chunks = -(-length // block)
        padded = triton.next_power_of_2(chunks)
        programs = count * slices * chunks
        self._sums = (programs, 5)
        sizes = {"slices": slices, "length": length, "chunks": chunks, "BLOCK": block}
        kinds = {
            "STORED": "position" in first.state,
            "weight_type": TYPES[first.parameter.dtype],
            "momentum_type": TYPES[first.state["momentum"].dtype],
            "num_warps": max(1, min(8, block // 512)),
        }
        gradient = {"MAXIMIZE": bool(first.group["maximize"]), "grad_type": TYPES[first.grad.dtype]}
        self._sphere = radii is not None
        self._before = Launch(overlaps, programs, MOVE=False, **gradient, **sizes, **kinds)
        self._average = Launch(
            average,
            programs,
            SPHERE=self._sphere,
            NESTEROV=self.muon.nesterov,
            STAY=True,
            first=0,
            CHUNKS=padded,
            **gradient,
            **sizes,
            **kinds,
        )
        self._after = Launch(overlaps, programs, MOVE=True, **gradient, **sizes, **kinds)
        at_once = max(1, min(_SLICES, triton.next_power_of_2(slices)) // padded)
        self._mean = Launch(mean_turn, count, slices=slices, chunks=chunks, BLOCK=at_once, CHUNKS=padded)
        self._turn = Launch(turn, programs, SPHERE=self._sphere, CHUNKS=padded, **sizes, **kinds)
        self._orthogonalised = Orthogonaliser(self.muon.orthogonalised, self.matrix_shape, self.upload)

    def _radii(self) -> Tensor | None:
        """A radius for each slice of each matrix, on the device; None for free matrices."""
        values: list[float] = []
        for entry in self.entries:
            if not isinstance(entry.form, SphereForm):
                return None
            radius = torch.as_tensor(entry.form.radius.value, dtype=torch.float32)
            values += radius.expand(entry.copies, entry.configuration_shape[0]).flatten().tolist()
        return self.upload(values, torch.float32)

    def launch(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        stack = torch.empty(self.matrix_shape, dtype=newton_schulz.PRECISION, device=self.device)
        sums, means = self.flags.table, self.flags.table  # read on spheres only
        if self._sphere:
            sums = torch.empty(self._sums, device=self.device)
            means = torch.empty(len(stack), device=self.device)
            self._before(self.table, grads, stack, sums)
        self._average(self.table, grads, rates, sums, stack, self.flags.table)
        stack = self._orthogonalised(stack)
        if self._sphere:
            self._after(self.table, grads, stack, sums)
            self._mean(sums, means)
        self._turn(self.table, rates, sums, means, stack)


def _reals(muon: Muon, entry: Entry) -> MuonReals:
    """The numbers of a parameter's step."""
    scale = muon.scale(entry.manifold)
    return MuonReals(lr=muon.lr, weight_decay=muon.weight_decay, momentum=muon.momentum, scale=scale)
