"""Sphere parameters, whose rows move one by one."""

import torch
from torch import Tensor

from colangevin.constraints.forms import SimplexForm
from colangevin.kernels.letters import encoded
from colangevin.kernels.spheres.langevin import sphere
from colangevin.step.fused.fused import Fused
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.memory import TYPES
from colangevin.step.fused.pattern import Pattern
from colangevin.step.fused.rates import copy_values
from colangevin.step.fused.sphere_tables import Cut, SphereTable, form_of

__all__ = ["SphereMover"]


class SphereMover(Fused):
    """Sphere parameters, all with slack or all without: one launch for each width of rows."""

    def tabulate(self, pattern: Pattern) -> None:
        self.table = SphereTable(self.entries, self.upload)
        decays = [
            decay
            for entry in self.entries
            for decay in copy_values(entry.group["weight_decay"], entry.copies)
        ]
        self.decays = self.upload(decays, torch.float32)
        self.launches = [
            (self._compose(pattern, len(chunks), cut), chunks) for cut, chunks in self.table.chunks.items()
        ]

    def _compose(self, pattern: Pattern, programs: int, cut: Cut) -> Launch:
        first = self.entries[0]
        return Launch(
            sphere,
            programs,
            LETTERS=encoded(letter for letter, _ in pattern.letters),
            COUNT=len(pattern.letters),
            NOISE=pattern.noisy,
            PARTS=any(entry.window is not None for entry in self.entries),
            VARIES=pattern.varies,
            SLACK=int(form_of(first).slack),
            STORED="position" in first.state,
            SQUARES=isinstance(first.form, SimplexForm),
            MAXIMIZE=bool(first.group["maximize"]),
            weight_type=TYPES[first.parameter.dtype],
            grad_type=TYPES[first.grad.dtype],
            **cut.constants,
            num_warps=cut.warps(),
        )

    def launch(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        for launch, chunks in self.launches:
            launch(self.table.rows, grads, self.decays, chunks, self.flags.table, rates)
