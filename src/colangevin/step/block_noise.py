"""The noise of a block: what its elements would get one by one, in as few calls as possible."""

import torch
from torch import Tensor

from colangevin.noise import normal, stream, streams
from colangevin.scratch import scratch
from colangevin.step.pieces import Piece

__all__ = ["block_noise"]

# Elements up to which parameters share one call for their noise.
_SMALL = 1 << 10


def block_noise(pieces: list[Piece], words: tuple[int, int], width: int, *, passing: bool) -> Tensor:
    """The normals of a block, ``width`` an element; ``words`` are segment and draw."""
    if passing and len(pieces) == 1:  # they are used before the next block's are made
        return _normals(pieces, words, width, slot=f"noise {words[1]}")[0].view(-1, width).squeeze(-1)
    # Small pieces share one call, which makes as many numbers for each as the longest needs: calls cost more
    # than numbers.
    small = [piece for piece in pieces if piece.stop - piece.start <= _SMALL]
    made = dict(zip(small, _normals(small, words, width), strict=True))
    parts = [made[piece] if piece in made else _normals([piece], words, width)[0] for piece in pieces]
    noise = parts[0] if len(parts) == 1 else torch.cat(parts)
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
