"""Sphere parameters with rows so long that many programs work on each."""

from typing import Any

import torch
from torch import Tensor

from colangevin.kernels.letters import encoded
from colangevin.kernels.spheres.wide_adam import wide_average, wide_dots, wide_means, wide_turn, wide_walk
from colangevin.kernels.spheres.wide_langevin import wide_evolve, wide_gram, wide_move, wide_normal
from colangevin.step.fused.adam import AdamMover
from colangevin.step.fused.fused import Fused
from colangevin.step.fused.memory import TYPES
from colangevin.step.fused.pattern import Pattern
from colangevin.step.fused.rates import copy_values
from colangevin.step.fused.sphere_tables import form_of
from colangevin.step.fused.wide_tables import WideTable

__all__ = ["AdamWideMover", "WideMover"]


class WideMover(Fused):
    """A step of Langevin dynamics, in two passes over memory."""

    def tabulate(self, pattern: Pattern) -> None:
        self.table = WideTable(self.entries, self.upload)
        decays = [
            decay
            for entry in self.entries
            for decay in copy_values(entry.group["weight_decay"], entry.copies)
        ]
        self.decays = self.upload(decays, torch.float32)
        first = self.entries[0]
        shared = {
            "LETTERS": encoded(letter for letter, _ in pattern.letters),
            "NOISE": pattern.noisy,
            "PARTS": any(entry.window is not None for entry in self.entries),
            "VARIES": pattern.varies,
            "SLACK": int(form_of(first).slack),
        }
        of_pieces: dict[str, Any] = {**shared, **_kinds(self)}
        self._gram = self.table.of_pieces(wide_gram, AGAIN=False, **of_pieces)
        self._normal = self.table.of_rows(wide_normal)
        self._gram_again = self.table.of_pieces(wide_gram, AGAIN=True, **of_pieces)
        self._evolve = self.table.of_rows(wide_evolve, **shared, COUNT=len(pattern.letters))
        self._move = self.table.of_pieces(wide_move, **of_pieces)

    def launch(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        table = self.table
        table.take_up_edits()
        tables, found = (table.rows, table.wide), (table.partials, table.coefficients)
        for launch, chunks in self._gram:
            launch(*tables, grads, self.decays, chunks, self.flags.table, rates, *found)
        self._normal(*tables, table.all_rows, *found)
        for launch, chunks in self._gram_again:
            launch(*tables, grads, self.decays, chunks, self.flags.table, rates, *found)
        self._evolve(*tables, table.all_rows, rates, *found)
        for launch, chunks in self._move:
            launch(*tables, grads, self.decays, chunks, rates, table.coefficients)


class AdamWideMover(AdamMover):
    """A step of Adam, in three passes over memory."""

    def tabulate(self, pattern: Pattern) -> None:
        self.table = WideTable(self.entries, self.upload)
        slack = {"SLACK": int(form_of(self.entries[0]).slack)}
        varies = {"VARIES": pattern.varies, **slack}
        kinds = _kinds(self)
        walked = {key: kinds[key] for key in ("STORED", "weight_type")}
        self._dots = self.table.of_pieces(wide_dots, **kinds)
        self._means = self.table.of_rows(wide_means, **slack)
        self._average = self.table.of_pieces(wide_average, **varies, **kinds)
        self._turn = self.table.of_rows(wide_turn, **varies)
        self._walk = self.table.of_pieces(wide_walk, **varies, **walked)

    def move(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        table, corrections = self.table, self.corrections
        table.take_up_edits()
        tables = (table.rows, table.wide)
        partials, coefficients = table.partials, table.coefficients
        for launch, chunks in self._dots:
            launch(*tables, grads, chunks, self.flags.table, partials)
        self._means(*tables, table.all_rows, partials, coefficients)
        for launch, chunks in self._average:
            launch(*tables, grads, chunks, corrections, rates, partials, coefficients)
        self._turn(*tables, table.all_rows, corrections, rates, partials, coefficients)
        for launch, chunks in self._walk:
            launch(*tables, chunks, corrections, rates, coefficients)


def _kinds(mover: Fused) -> dict[str, Any]:
    """The arguments of kernels on pieces that depend on the first of parameters alike."""
    first = mover.entries[0]
    return {
        "STORED": "position" in first.state,
        "MAXIMIZE": bool(first.group["maximize"]),
        "weight_type": TYPES[first.parameter.dtype],
        "grad_type": TYPES[first.grad.dtype],
    }
