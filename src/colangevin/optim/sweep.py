"""Elementwise parameters in plain torch, walked through in blocks that stay in the cache."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin.constraints import Constraint
from colangevin.integrators.overdamped import Overdamped
from colangevin.noise import normal, stream, streams
from colangevin.optim.bucket import Dynamics
from colangevin.optim.entry import Entry

__all__ = ["Sweep", "sweeps"]

# Elements worked on at a time: the dozen passes of a step over 0.25 MB each stay in the cache, and blocks
# twice as long as torch's grain still go to two threads.
_BLOCK = 1 << 16


def sweeps(entry: Entry) -> bool:
    """Whether a parameter can be walked through as one line of memory, with its gradient and its state.

    Args:
        entry: a parameter with its gradient.

    Returns:
        Whether its elements move alone and lie in the order in which their noise comes.
    """
    tensors = [entry.parameter, entry.grad, entry.state.get("position"), entry.state.get("momentum")]
    return (
        entry.constraint.elementwise
        and entry.parameter.device.type == "cpu"
        and all(tensor.is_contiguous() for tensor in tensors if tensor is not None)
    )


class Piece(NamedTuple):
    """A stretch of a parameter's elements: within one of its copies, or a number of whole copies."""

    entry: Entry
    start: int
    stop: int

    def of(self, tensor: Tensor) -> Tensor:
        """The same stretch of a tensor that lies like the parameter."""
        flat = tensor.view(-1)
        return flat if self.stop - self.start == flat.numel() else flat[self.start : self.stop]

    def noise(self, words: tuple[int, ...], width: int, dtype: torch.dtype) -> Tensor:
        """The normals of the stretch, ``width`` an element; ``words`` are segment and draw."""
        entry = self.entry
        size = entry.numel // entry.copies
        first, last = self.start // size, -(-self.stop // size)
        parameter = stream(entry.group["seed"], entry.step, entry.index)
        keys = streams([parameter], [entry.numbers[first:last]], *words)
        count = min(size, self.stop - self.start) * width
        skip = (self.start - first * size) * width
        return normal(keys, (count,), dtype=dtype, device=entry.parameter.device, skip=skip).reshape(-1)


class Operands(NamedTuple):
    """What one block of a step reads and writes, flat: weights, q (None: the weights), p, gradient, noise."""

    theta: list[Tensor]
    position: list[Tensor] | None
    momentum: list[Tensor] | None
    grad: list[Tensor]
    noise: list[Tensor]


class Sweep:
    """The parameters of one group and dtype that one elementwise constraint holds.

    Args:
        constraint: what holds them.
        position: of their group.
    """

    def __init__(self, constraint: Constraint, position: int) -> None:
        self.constraint = constraint
        self.position = position
        self.entries: list[Entry] = []

    def advance(self, dynamics: Dynamics, segment: int, *, last: bool) -> None:
        """Move every parameter through a segment of the step; the last one completes it."""
        for operands in self._begin(dynamics, segment):
            self._move(dynamics, operands, segment)
        self._end(last)

    def _begin(self, dynamics: Dynamics, segment: int) -> Iterator[Operands]:
        underdamped = not isinstance(dynamics, Overdamped)
        for entry in self.entries:
            entry.settle(momentum=underdamped)
        shapes = dynamics.noise_shapes(self.constraint, (1,), segment)
        widths = [math.prod(shape) for shape in shapes]
        for block in _blocks(self.entries):
            states = [(piece, piece.entry.state) for piece in block]
            dtype = block[0].entry.dtype
            yield Operands(
                [piece.of(piece.entry.parameter.detach()) for piece in block],
                [piece.of(state["position"]) for piece, state in states]
                if "position" in states[0][1]
                else None,
                [piece.of(state["momentum"]) for piece, state in states] if underdamped else None,
                [piece.of(piece.entry.grad) for piece in block],
                [
                    _joined([piece.noise((segment, draw), width, dtype) for piece in block]).view(
                        -1, *[width] * (width > 1)
                    )
                    for draw, width in enumerate(widths)
                ],
            )

    def _move(self, dynamics: Dynamics, operands: Operands, segment: int) -> None:
        """One block: gather, step, write."""
        group, dtype = self.entries[0].group, self.entries[0].dtype
        theta = _joined(operands.theta).to(dtype)
        grad = _joined(operands.grad).to(dtype)
        if group["maximize"]:
            grad = -grad
        if group["weight_decay"]:
            grad = torch.add(grad, theta, alpha=float(group["weight_decay"]))
        q = theta if operands.position is None else _joined(operands.position)
        if isinstance(dynamics, Overdamped):
            q = dynamics.step(self.constraint, q, grad, operands.noise)
        else:
            p = _joined(operands.momentum)
            q, p = dynamics.step(self.constraint, q, p, grad, operands.noise, segment)
            _spread(p, operands.momentum)
        _spread(self.constraint.lower(q, q.shape), operands.theta)
        if operands.position is not None:
            _spread(q, operands.position)

    def _end(self, last: bool) -> None:
        for entry in self.entries:
            if last:
                entry.count()
            entry.remember()


def _blocks(entries: list[Entry]) -> Iterator[list[Piece]]:
    """Parameters cut into pieces of at most a block, small ones together."""
    limit = math.inf if torch.compiler.is_compiling() else _BLOCK
    together: list[Piece] = []
    size = 0
    for entry in entries:
        if entry.numel > limit:
            yield from ([piece] for piece in _pieces(entry))
            continue
        if size + entry.numel > limit and together:
            yield together
            together, size = [], 0
        together.append(Piece(entry, 0, entry.numel))
        size += entry.numel
    if together:
        yield together


def _pieces(entry: Entry) -> Iterator[Piece]:
    """A large parameter in pieces: whole copies where they are small, parts of one where they are not."""
    copy = entry.numel // entry.copies
    length = _BLOCK // copy * copy or _BLOCK
    for first in range(0, entry.numel, max(copy, length)):
        end = min(entry.numel, first + max(copy, length))
        for start in range(first, end, length):
            yield Piece(entry, start, min(end, start + length))


def _joined(pieces: list[Tensor]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def _spread(result: Tensor, pieces: list[Tensor]) -> None:
    """Write a result where it belongs."""
    parts = [result] if len(pieces) == 1 else result.split([piece.numel() for piece in pieces])
    torch._foreach_copy_(pieces, parts)
