"""Elementwise parameters in plain torch, walked through in blocks that stay in the cache."""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin.constraints.base import plus
from colangevin.constraints.elementwise import Elementwise
from colangevin.integrators import overdamped, underdamped
from colangevin.integrators.overdamped import Overdamped
from colangevin.noise import normal, stream, streams
from colangevin.optim.bucket import Dynamics
from colangevin.optim.entry import Entry
from colangevin.scratch import scratch

__all__ = ["Numbers", "Operands", "Sweep", "swept_by"]

#: step size and noise scale of an overdamped step, or the letters of an underdamped one
Numbers = overdamped.Numbers | list[underdamped.Move]

# Elements worked on at a time: the dozen passes of a step over 1 MB each stay in the cache, each pass is
# long against what calling it costs, and torch, whose grain is an eighth of it, gives it to eight threads.
_BLOCK = 1 << 18
# Elements up to which parameters share one call for their noise.
_SMALL = 1 << 10


def swept_by(entry: Entry) -> Elementwise | None:
    """What holds a parameter that can be walked through as one line of memory, with its gradient and state.

    Args:
        entry: a parameter with its gradient.

    Returns:
        Its constraint, if its elements move alone and lie in the order in which their noise comes.
    """
    tensors = [entry.parameter, entry.grad, entry.state.get("position"), entry.state.get("momentum")]
    constraint = entry.constraint
    if not (isinstance(constraint, Elementwise) and constraint.uniform):
        return None
    flat = all(tensor.is_contiguous() for tensor in tensors if tensor is not None)
    return constraint if flat and entry.parameter.device.type == "cpu" else None


class Piece(NamedTuple):
    """A stretch of a parameter's elements: within one of its copies, or a number of whole copies."""

    entry: Entry
    start: int
    stop: int

    def of(self, tensor: Tensor) -> Tensor:
        """The same stretch of a tensor that lies like the parameter."""
        flat = tensor.view(-1)
        return flat if self.stop - self.start == flat.numel() else flat[self.start : self.stop]


class Operands(NamedTuple):
    """What one block of a step reads and writes: a flat tensor a piece, and the noise of all."""

    theta: list[Tensor]
    position: list[Tensor]  # empty where q is the weight itself
    momentum: list[Tensor]
    grad: list[Tensor]
    noise: list[Tensor]


class Sweep:
    """The parameters of one group and dtype that one elementwise constraint holds.

    Args:
        constraint: what holds them.
        position: of their group.
    """

    def __init__(self, constraint: Elementwise, position: int) -> None:
        self.constraint = constraint
        self.position = position
        self.entries: list[Entry] = []

    # A compiled step traces what is done to each block, and only that.

    def prepare(self, dynamics: Dynamics, segment: int, *, whole: bool) -> tuple[Numbers, Iterable[Operands]]:
        """The numbers of a step and its blocks.

        Args:
            dynamics: of the group, on the host.
            segment: of the step.
            whole: whether a block is a parameter, as suits a compiler; else blocks are made as they are
                needed, each valid until the next.

        Returns:
            What :meth:`move` takes: the numbers, and blocks one by one.
        """
        numbers = dynamics.numbers() if isinstance(dynamics, Overdamped) else dynamics.moves(segment)
        for entry in self.entries:
            entry.settle(momentum=not isinstance(dynamics, Overdamped))
        widths = [math.prod(s) for s in dynamics.noise_shapes(self.constraint, (1,), segment)]
        keeps = self.constraint.keeps_position(self.entries[0].parameter.dtype)
        if whole:
            each = ([Piece(entry, 0, entry.numel)] for entry in self.entries)
            return numbers, [_block(pieces, segment, widths, keeps=keeps, passing=False) for pieces in each]
        blocks = _blocks(self.entries)
        return numbers, (_block(pieces, segment, widths, keeps=keeps, passing=True) for pieces in blocks)

    def move(self, numbers: Numbers, operands: Operands) -> None:
        """Move one block through the segment: gather, step, write."""
        group, dtype = self.entries[0].group, self.entries[0].dtype
        theta, grad = _joined(operands.theta).to(dtype), _joined(operands.grad).to(dtype)
        if group["maximize"]:
            grad = -grad
        if group["weight_decay"]:
            grad = plus(grad, theta, float(group["weight_decay"]))
        q = _joined(operands.position) if operands.position else theta
        compiling = torch.compiler.is_compiling()
        if isinstance(numbers, tuple):
            q = overdamped.follow(numbers, self.constraint, q, grad, operands.noise)
        else:
            p = _joined(operands.momentum)
            if compiling:
                q, p = underdamped.follow(numbers, self.constraint, q, p, grad, operands.noise)
            else:
                underdamped.follow_(numbers, self.constraint, q, p, grad, operands.noise)
            _spread(p, operands.momentum)
        if compiling:
            theta = self.constraint.lower(q, q.shape)
        else:
            self.constraint.lower_(q, theta)
        _spread(theta, operands.theta)
        if operands.position:
            _spread(q, operands.position)

    def complete(self, *, last: bool) -> None:
        """Note that all blocks have moved; the last segment completes the step."""
        if last:
            torch._foreach_add_([entry.counter for entry in self.entries], 1)
        for entry in self.entries:
            entry.remember()


def _block(pieces: list[Piece], segment: int, widths: list[int], *, keeps: bool, passing: bool) -> Operands:
    states = [(piece, piece.entry.state) for piece in pieces]
    return Operands(
        [piece.of(piece.entry.parameter.detach()) for piece in pieces],
        [piece.of(state["position"]) for piece, state in states] if keeps else [],
        [piece.of(state["momentum"]) for piece, state in states if "momentum" in state],
        [piece.of(piece.entry.grad) for piece in pieces],
        [_noise(pieces, (segment, i), width, passing=passing) for i, width in enumerate(widths)],
    )


def _noise(pieces: list[Piece], words: tuple[int, int], width: int, *, passing: bool) -> Tensor:
    """The normals of a block, ``width`` an element; ``words`` are segment and draw."""
    if passing and len(pieces) == 1:  # they are used before the next block's are made
        return _normals(pieces, words, width, slot=f"noise {words[1]}")[0].view(-1, width).squeeze(-1)
    # small ones at once, each stream as long as the longest: they cost calls, not numbers
    small = [piece for piece in pieces if piece.stop - piece.start <= _SMALL]
    made = dict(zip(small, _normals(small, words, width), strict=True))
    parts = [made[piece] if piece in made else _normals([piece], words, width)[0] for piece in pieces]
    noise = _joined(parts)
    return noise if width == 1 else noise.view(-1, width)


def _normals(
    pieces: list[Piece], words: tuple[int, int], width: int, slot: str | None = None
) -> list[Tensor]:
    """The normals of each piece: one alone, or several of whole parameters."""
    if not pieces:
        return []
    keys, copies, counts = [], [], []
    for entry, start, stop in pieces:
        size = entry.numel // entry.copies
        keys.append(stream(entry.group["seed"], entry.step, entry.index))
        copies.append(entry.numbers[start // size : -(-stop // size)])
        counts.append(min(size, stop - start) * width)
    entry, start, _ = pieces[0]
    skip = start % (entry.numel // entry.copies) * width
    numbers = streams(keys, copies, *words)
    device, longest = entry.parameter.device, max(counts)
    room = (len(numbers), longest + longest % 2)
    out = None if slot is None else scratch(slot, room, entry.dtype, device)
    rows = normal(numbers, (longest,), dtype=entry.dtype, device=device, skip=skip, out=out)
    parts = rows.split([len(each) for each in copies])
    return [part[:, :count].reshape(-1) for part, count in zip(parts, counts, strict=True)]


def _blocks(entries: list[Entry]) -> Iterator[list[Piece]]:
    """Parameters cut into pieces of at most a block, small ones together."""
    together: list[Piece] = []
    size = 0
    for entry in entries:
        if entry.numel > _BLOCK:
            yield from ([piece] for piece in _pieces(entry))
            continue
        if size + entry.numel > _BLOCK and together:
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
    if len(pieces) == 1:
        if result is not pieces[0]:
            pieces[0].copy_(result)
    else:
        torch._foreach_copy_(pieces, result.split([piece.numel() for piece in pieces]))
