"""Elementwise parameters on the CPU, walked through in blocks that stay in the cache."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from colangevin.constraints.forms import ElementwiseForm
from colangevin.constraints.stacks import plus
from colangevin.dynamics import Dynamics, Overdamped, overdamped, underdamped
from colangevin.step import lines
from colangevin.step.entry import Entry
from colangevin.step.hosted import Hosted
from colangevin.step.mover import Traceable
from colangevin.step.operands import Operands, operands_of
from colangevin.step.pieces import cut, whole

__all__ = ["Blocks", "walkable"]

#: step size and noise scale of an overdamped step, or the letters of an underdamped one
Numbers = overdamped.Numbers | list[underdamped.Move]


def walkable(entry: Entry) -> bool:
    """Whether a parameter can be walked through as one line of memory, with its gradient and state.

    Args:
        entry: a parameter with its gradient.

    Returns:
        Whether its elements move alone and alike, and lie in the order in which their noise comes.
    """
    form, state = entry.form, entry.state
    if not isinstance(form, ElementwiseForm) or entry.parameter.device.type != "cpu":
        return False
    tensors = [entry.parameter, entry.grad, state.get("position"), state.get("momentum")]
    uniform = form.radius is None or form.radius.uniform
    return uniform and all(tensor.is_contiguous() for tensor in tensors if tensor is not None)


class Blocks(Hosted, Traceable):
    """The parameters of one group and dtype whose elements move alone.

    Args:
        entries: the parameters.
    """

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__(entries)
        first = entries[0]
        assert isinstance(first.form, ElementwiseForm)
        self._radius = None if first.form.radius is None else first.form.radius.smallest
        #: of one element, with methods that take lines of them
        self._manifold = first.constraint.on((1,))
        self._stored = first.stored
        self._group, self._dtype = first.group, first.dtype

    def prepare(self, dynamics: Sequence[Dynamics], segment: int, *, compiling: bool) -> None:
        mine = dynamics[self.entries[0].group_index].on_host
        self.completes = segment == mine.segments - 1
        self._numbers: Numbers = mine.numbers if isinstance(mine, Overdamped) else mine.moves[segment]
        for entry in self.entries:
            state = entry.state
            known = entry.untouched and "position" in state if entry.stored else True
            if not (known and ("momentum" in state or not mine.momentum)):
                entry.settle(momentum=mine.momentum)
        shapes = mine.noise_shapes(self._manifold, segment) if mine.noisy else []
        widths = [math.prod(shape) for shape in shapes]
        # A block is valid until the next is made, except for a compiler, which gets whole parameters.
        blocks = whole(self.entries) if compiling else cut(self.entries)
        self._operands: Iterable[Operands] = (
            operands_of(pieces, segment, widths, stored=self._stored, passing=not compiling)
            for pieces in blocks
        )

    def advance(self) -> None:
        for operands in self._operands:
            theta, grad, q = self._gathered(operands)
            if isinstance(self._numbers, tuple):
                q = overdamped.follow(self._numbers, self._manifold, q, grad, operands.noise)
            else:
                p = _joined(operands.momentum)
                lines.underdamped(self._numbers, self._radius, q, p, grad, operands.noise)
                _spread(p, operands.momentum)
            lines.lower(self._radius, q, theta)
            self._write(theta, q, operands)

    def pieces(self) -> list[tuple[Numbers, Operands]]:
        return [(self._numbers, operands) for operands in self._operands]

    def move(self, numbers: Numbers, operands: Operands) -> None:
        _, grad, q = self._gathered(operands)
        if isinstance(numbers, tuple):
            q = overdamped.follow(numbers, self._manifold, q, grad, operands.noise)
        else:
            p = _joined(operands.momentum)
            q, p = underdamped.follow(numbers, self._manifold, q, p, grad, operands.noise)
            _spread(p, operands.momentum)
        self._write(self._manifold.lower(q), q, operands)

    def _gathered(self, operands: Operands) -> tuple[Tensor, Tensor, Tensor]:
        """Weights, gradient of what is minimised, and configuration of a block."""
        theta, grad = _joined(operands.theta).to(self._dtype), _joined(operands.grad).to(self._dtype)
        if self._group["maximize"]:
            grad = -grad
        if self._group["weight_decay"]:
            grad = plus(grad, theta, float(self._group["weight_decay"]))
        return theta, grad, _joined(operands.position) if operands.position else theta

    def _write(self, theta: Tensor, q: Tensor, operands: Operands) -> None:
        _spread(theta, operands.theta)
        if operands.position:
            _spread(q, operands.position)


def _joined(pieces: list[Tensor]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def _spread(result: Tensor, pieces: list[Tensor]) -> None:
    """Write a result where it belongs."""
    if len(pieces) == 1:
        if result is not pieces[0]:
            pieces[0].copy_(result)
    else:
        torch._foreach_copy_(pieces, result.split([piece.numel() for piece in pieces]))
