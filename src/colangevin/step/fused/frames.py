"""Orthogonal parameters: matrices with orthonormal rows or columns."""

import math

import torch
from torch import Tensor

from colangevin.step.entry import Entry
from colangevin.step.fused.frame_set import FrameSet
from colangevin.step.fused.fused import Fused
from colangevin.step.fused.lines import Lines
from colangevin.step.fused.matrices import Matrices
from colangevin.step.fused.memory import address
from colangevin.step.fused.pattern import Pattern
from colangevin.step.fused.tilings import Matrix

__all__ = ["OrthogonalMover"]


class OrthogonalMover(Fused):
    """Orthogonality: momenta by the elementwise kernels, drift and projections by the matrix kernels."""

    def tabulate(self, pattern: Pattern) -> None:
        # X lies in the weight, or in its float32 copy in the state
        places = [entry.state.get("position", entry.parameter) for entry in self.entries]
        matrices = [
            matrix
            for entry, place in zip(self.entries, places, strict=True)
            for matrix in _matrices(entry, place)
        ]
        overdamped = "momentum" not in self.entries[0].state
        if overdamped:
            self.overdamped = Matrices(matrices, self.upload, overdamped=True, varies=pattern.varies)
            places = self._copies(places)
        else:
            self.matrices = FrameSet(matrices, self.upload, varies=pattern.varies)
        self.lines = Lines(self, places, counts=False)

    def _copies(self, places: list[Tensor]) -> list[Tensor]:
        """Room for a copy of every X, in one piece of memory: what the overdamped step moves."""
        self.flat = [torch.as_strided(place, (place.numel(),), (1,)) for place in places]
        self.ahead = torch.empty(self.overdamped.copy_size, device=self.device)
        self.copies: list[Tensor] = []
        first = 0
        for entry, flat in zip(self.entries, self.flat, strict=True):
            start = self.overdamped.offsets[first]
            self.copies.append(self.ahead[start : start + flat.numel()])
            first += entry.copies
        return self.copies

    def launch(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        stored = [entry for entry in self.entries if "position" in entry.state]
        for entry in stored:  # as Manifold.reconcile, without asking the device whether there is an edit
            position = entry.state["position"]
            edited = position.to(entry.parameter.dtype) != entry.parameter
            position.copy_(torch.where(edited, entry.parameter.to(position.dtype), position))
        if pattern.letters:
            self._underdamped(pattern, grads, rates)
        else:
            torch._foreach_copy_(self.copies, self.flat)
            self.lines(pattern, grads, rates, ())
            self.overdamped.drift(rates, self.ahead)
        if stored:
            # by .data, which torch does not count: it would look like an edit, and the host would check it
            weights = [entry.parameter.data for entry in stored]
            torch._foreach_copy_(weights, [entry.state["position"] for entry in stored])

    def _underdamped(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        """Follow runs of O and B without projection; the next A, or the end, projects the momenta."""
        run: list[tuple[str, float]] = []
        draws = 0
        for letter in pattern.letters:
            if letter[0] != "A":
                run.append(letter)
                continue
            if run:
                self.lines(pattern, grads, rates, run, draws)
            draws += sum(name == "O" for name, _ in run)
            run = []
            self.matrices.drift(rates)
        if run:
            self.lines(pattern, grads, rates, run, draws)
            self.matrices.tangent(rates)


def _matrices(entry: Entry, place: Tensor) -> list[Matrix]:
    """The matrix of each copy of a parameter."""
    rows, columns = entry.shape[0], math.prod(entry.shape[1:])
    momentum = entry.state.get("momentum")
    return [
        Matrix(
            configuration=address(place, copy * rows * columns),
            momentum=address(momentum, copy * rows * columns),
            rows=rows,
            columns=columns,
        )
        for copy in range(entry.copies)
    ]
