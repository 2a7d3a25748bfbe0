"""Adam's step of free, circle and sphere parameters."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.forms import SimplexForm, SquareForm
from colangevin.dynamics import Dynamics
from colangevin.kernels.adam.averages import correct
from colangevin.kernels.adam.lines import adam_lines
from colangevin.kernels.spheres.adam import adam_sphere
from colangevin.step.entry import Entry
from colangevin.step.fused.fused import Fused
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.line_tables import LineTable
from colangevin.step.fused.memory import TYPES
from colangevin.step.fused.pattern import Pattern
from colangevin.step.fused.rates import adam_of
from colangevin.step.fused.sphere_tables import Cut, SphereTable, form_of

__all__ = ["AdamLineMover", "AdamSphereMover"]

_BLOCK = 512  # elements that a program of the elementwise kernel works on
_WARPS = 4
_COUNTS = 128  # step counts that a program adds to


class AdamMover(Fused):
    """Parameters that take Adam's step: one launch counts steps, the others move."""

    counts = False

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__(entries)
        count = len(entries)
        self.corrections = torch.empty(count, 2, dtype=torch.float32, device=self.device)
        self._correct = Launch(correct, -(-count // _COUNTS), n=count, BLOCK=_COUNTS)
        self._betas: list[tuple[float, float]] = []

    def moments(self) -> tuple[str, ...]:
        return "momentum", "second_moment"

    def launch(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        self._correct(self._steps, self._logs, self.corrections)
        self.move(pattern, grads, rates)

    @abstractmethod
    def move(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        """Move everything, with the corrections of this step."""

    def _follow(self, dynamics: Sequence[Dynamics]) -> None:
        super()._follow(dynamics)
        betas = [adam_of(dynamics[entry.group_index]).betas for entry in self.entries]
        if betas != self._betas:
            self._betas = betas
            logs = [[math.log(beta) if beta else -math.inf for beta in pair] for pair in betas]
            self._logs = self.upload(logs, torch.float64)

    @property
    def _constants(self) -> dict[str, Any]:
        """The arguments of the kernels that all parameters share."""
        first = self.entries[0]
        return {
            "MAXIMIZE": bool(first.group["maximize"]),
            "weight_type": TYPES[first.parameter.dtype],
            "grad_type": TYPES[first.grad.dtype],
        }


class AdamLineMover(AdamMover):
    """Free and circle parameters: one launch."""

    def tabulate(self, pattern: Pattern) -> None:
        weights = [entry.parameter for entry in self.entries]
        self.table = LineTable(self.entries, weights, self.upload, _BLOCK, counts=False, decays=False)
        self.launches: dict[object, Launch] = {}

    def move(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        table = self.table
        key = (pattern.varies, self.trusted, table.aligned and self.gradients_aligned)
        launch = self.launches.get(key)
        if launch is None:
            launch = self.launches[key] = self._compose(*key)
        launch(table.rows, grads, table.reals, table.chunks, self.flags.table, self.corrections, rates)

    def _compose(self, varies: bool, trusted: bool, aligned: bool) -> Launch:
        return Launch(
            adam_lines,
            len(self.table.chunks),
            SQUARES=isinstance(self.entries[0].form, SquareForm),
            RADII=self.table.radii,
            VARIES=varies,
            TRUSTED=trusted,
            **self._constants,
            state_type=TYPES[self.entries[0].dtype],
            ALIGNED=aligned,
            BLOCK=_BLOCK,
            num_warps=_WARPS,
        )


class AdamSphereMover(AdamMover):
    """Sphere parameters, all with slack or all without: one launch for each width of rows."""

    def tabulate(self, pattern: Pattern) -> None:
        self.table = SphereTable(self.entries, self.upload)
        self.launches = [
            (self._compose(pattern, len(chunks), cut), chunks) for cut, chunks in self.table.chunks.items()
        ]

    def _compose(self, pattern: Pattern, programs: int, cut: Cut) -> Launch:
        first = self.entries[0]
        return Launch(
            adam_sphere,
            programs,
            VARIES=pattern.varies,
            SLACK=int(form_of(first).slack),
            STORED="position" in first.state,
            SQUARES=isinstance(first.form, SimplexForm),
            **self._constants,
            **cut.constants,
            **_compiled_for(cut, stored="position" in first.state),
        )

    def move(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        for launch, chunks in self.launches:
            launch(self.table.rows, grads, chunks, self.flags.table, self.corrections, rates)


def _compiled_for(cut: Cut, *, stored: bool) -> dict[str, int]:
    """Compiler options of the sphere kernel."""
    if cut.turned:
        return {"num_warps": cut.warps()}
    if stored:
        # without a limit too few programs run at a time to keep the memory busy, but a thread has to hold its
        # entries
        limit = {"maxnreg": 64} if cut.rows * cut.width <= 256 * cut.warps() else {}
        return {"num_warps": cut.warps(), **limit}
    return {"num_warps": cut.warps(1024, 1)}  # a warp alone adds up a row without waiting for others
