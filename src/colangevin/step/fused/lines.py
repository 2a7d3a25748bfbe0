"""Free and circle parameters, whose elements move one by one."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.constraints.forms import ElementwiseForm
from colangevin.kernels.columns import ChunkRow, LineReals, LineRow
from colangevin.kernels.elementwise.overdamped import overdamped
from colangevin.kernels.elementwise.underdamped import underdamped
from colangevin.kernels.letters import encoded
from colangevin.step.entry import Entry
from colangevin.step.fused.fused import Fused
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.memory import TYPES, address
from colangevin.step.fused.pattern import Letters, Pattern
from colangevin.step.fused.rates import copy_values

__all__ = ["ElementwiseMover", "Lines"]

_BLOCK = 256  # elements that a program works on
# Compiler options of the underdamped kernel. Without the limit it takes so many registers that too few
# programs run at a time to keep the memory busy.
_SMALL = {"num_warps": 1, "maxnreg": 64}


class Lines:
    """Tables and launches of the elementwise kernels.

    Args:
        mover: whose parameters they move.
        weights: what they move: the parameters, or tensors of their size in their place.
        counts: whether a launch adds 1 to the step counts.
    """

    def __init__(self, mover: Fused, weights: Sequence[Tensor], *, counts: bool) -> None:
        rows: list[LineRow] = []
        reals: list[LineReals] = []
        chunks: list[ChunkRow] = []
        for number, (entry, weight) in enumerate(zip(mover.entries, weights, strict=True)):
            blocks = range(-(-math.prod(entry.shape) // _BLOCK))
            for row in _rows(entry, weight, number, counts):
                chunks += [ChunkRow(row=len(rows), block=block) for block in blocks]
                rows.append(row)
            reals += _reals(entry)
        self._table = mover.upload(rows, torch.int64)
        self._reals = mover.upload(reals, torch.float32)
        self._chunks = mover.upload(chunks, torch.int32)
        self._aligned = all(
            number % 16 == 0
            for row in rows
            for number in (row.weight, row.momentum, row.position, 4 * row.elements)
        )
        self._mover = mover
        self._options = {
            "COUNTS": counts,
            "PARTS": any(entry.window is not None for entry in mover.entries),
            "MAXIMIZE": bool(mover.entries[0].group["maximize"]),
            "weight_type": TYPES[weights[0].dtype],
            "grad_type": TYPES[mover.entries[0].grad.dtype],
            "BLOCK": _BLOCK,
        }
        self._launches: dict[object, Launch] = {}

    def __call__(
        self, pattern: Pattern, grads: Tensor, rates: Tensor, letters: Letters, draw: int = 0
    ) -> None:
        """Follow letters with every weight, or take the overdamped step if there are none.

        Args:
            pattern: of the whole step.
            grads: addresses of the gradients.
            rates: of the step.
            letters: those of this launch.
            draw: how many Os of the step came in launches before.
        """
        mover = self._mover
        key = (tuple(letters), draw, pattern.noisy, pattern.varies, mover.trusted, mover.gradients_aligned)
        launch = self._launches.get(key)
        if launch is None:
            launch = self._launches[key] = self._compose(*key)
        launch(self._table, grads, self._reals, self._chunks, mover.flags.table, rates)

    def _compose(
        self, letters: Letters, draw: int, noise: bool, varies: bool, trusted: bool, aligned: bool
    ) -> Launch:
        aligned = self._aligned and aligned
        options = {**self._options, "NOISE": noise, "VARIES": varies, "TRUSTED": trusted, "ALIGNED": aligned}
        if not letters:
            return Launch(overdamped, len(self._chunks), **options, num_warps=2)
        names = [name for name, _ in letters]
        code = {"LETTERS": encoded(names), "COUNT": len(names), "MOVES": "A" in names, "DRAW": draw}
        return Launch(underdamped, len(self._chunks), **code, **options, **_SMALL)


def _rows(entry: Entry, weight: Tensor, flag: int, counts: bool) -> list[LineRow]:
    """A row for each copy of a parameter."""
    numel, state = math.prod(entry.shape), entry.state
    return [
        LineRow(
            weight=address(weight, copy * numel),
            momentum=address(state.get("momentum"), copy * numel),
            position=address(state.get("position"), copy * numel),
            step=state["step"].data_ptr(),
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


def _reals(entry: Entry) -> list[LineReals]:
    """Radius and weight decay of each copy of a parameter."""
    radius = entry.form.radius if isinstance(entry.form, ElementwiseForm) else None
    value = 0.0 if radius is None else radius.value
    radii = [value] * entry.copies if isinstance(value, float) else value.flatten().tolist()
    decays = copy_values(entry.group["weight_decay"], entry.copies)
    return [LineReals(radius=r, decay=decay) for r, decay in zip(radii, decays, strict=True)]


class ElementwiseMover(Fused):
    """Free and circle parameters: one launch."""

    def tabulate(self, pattern: Pattern) -> None:
        # with noise every program reads the step count, so none of them may change it
        self.counts = pattern.noisy
        self.lines = Lines(self, [entry.parameter for entry in self.entries], counts=not pattern.noisy)

    def launch(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        self.lines(pattern, grads, rates, pattern.letters)
