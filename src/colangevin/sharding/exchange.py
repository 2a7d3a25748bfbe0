"""Whole weights for their owners: parts are sent to the rank that steps a weight, and come back from there.

Both ways are one all-to-all of bytes. What a rank sends to another is, for every weight that the other owns,
its part of every tensor of that weight, each padded to a multiple of 16 bytes. Both sides compute all sizes
from the layouts, so that no size has to be sent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from colangevin.sharding.layout import Layout
from colangevin.sharding.peers import Peers
from colangevin.sharding.region import Region

__all__ = ["Parcel", "Sheet", "collect", "deliver", "padded"]

# A tensor of any dtype can begin at a multiple of this.
_ALIGNMENT = 16


@dataclass
class Sheet:
    """One tensor of a weight: the weight itself, its gradient, or what the state has of it.

    Attributes:
        layout: how it is spread.
        part: what this process holds of it.
        whole: all of it, on the rank that owns the weight.
    """

    layout: Layout
    part: Tensor
    whole: Tensor | None = None


@dataclass
class Parcel:
    """All tensors of a weight that travel, and the rank of the peers that owns it."""

    owner: int
    sheets: list[Sheet] = field(default_factory=list)


def padded(region: Region, itemsize: int) -> int:
    """How many bytes a part takes on its way."""
    return -(-region.numel * itemsize // _ALIGNMENT) * _ALIGNMENT


def collect(parcels: Sequence[Parcel], peers: Peers) -> Callable[[], None]:
    """Begin to bring the parts of weights to their owners.

    Args:
        parcels: of all weights, the same on every peer but for the parts.
        peers: the processes that hold the parts.

    Returns:
        What completes it: every sheet of an owned weight then has its ``whole``.
    """
    outgoing = [
        [sheet for p in parcels if p.owner == rank for sheet in p.sheets] for rank in range(len(peers))
    ]
    mine = outgoing[peers.me]
    received, sizes, work = _all_to_all(
        [
            [(sheet.part, sheet.layout.region(peers.coordinates[peers.me])) for sheet in each]
            for each in outgoing
        ],
        [[(sheet, sheet.layout.region(place)) for sheet in mine] for place in peers.coordinates],
        peers,
    )

    def complete() -> None:
        work()
        for sheet in mine:
            if sheet.whole is None:
                sheet.whole = sheet.part.new_empty(sheet.layout.whole)
        for buffer, place in zip(received.split(sizes), peers.coordinates, strict=True):
            regions = [sheet.layout.region(place) for sheet in mine]
            for sheet, region, values in zip(mine, regions, _unpacked(buffer, mine, regions), strict=True):
                assert sheet.whole is not None
                sheet.whole[region.slices].copy_(values)

    return complete


def deliver(parcels: Sequence[Parcel], peers: Peers) -> Callable[[], None]:
    """Begin to bring the parts of whole weights back to the ranks that hold them.

    Args:
        parcels: of all weights; the owner's sheets have their ``whole``.
        peers: the processes that hold the parts.

    Returns:
        What completes it: the parts then have the values of the whole.
    """
    incoming = [
        [sheet for p in parcels if p.owner == rank for sheet in p.sheets] for rank in range(len(peers))
    ]
    here = peers.coordinates[peers.me]
    outgoing: list[list[tuple[Tensor, Region]]] = []
    for place in peers.coordinates:
        outgoing.append([])
        for sheet in incoming[peers.me]:
            assert sheet.whole is not None
            region = sheet.layout.region(place)
            outgoing[-1].append((sheet.whole[region.slices], region))
    received, sizes, work = _all_to_all(
        outgoing, [[(sheet, sheet.layout.region(here)) for sheet in each] for each in incoming], peers
    )

    def complete() -> None:
        work()
        for buffer, sheets in zip(received.split(sizes), incoming, strict=True):
            regions = [sheet.layout.region(here) for sheet in sheets]
            for sheet, values in zip(sheets, _unpacked(buffer, sheets, regions), strict=True):
                sheet.part.copy_(values)

    return complete


def _all_to_all(
    outgoing: Sequence[Sequence[tuple[Tensor, Region]]],
    incoming: Sequence[Sequence[tuple[Sheet, Region]]],
    peers: Peers,
) -> tuple[Tensor, list[int], Callable[[], object]]:
    """Send blocks to every rank, receive others: the bytes, how many from each, and what waits for them."""
    packed = [_packed(block, region) for each in outgoing for block, region in each]
    sent = [sum(padded(region, block.element_size()) for block, region in each) for each in outgoing]
    sizes = [sum(padded(region, sheet.part.element_size()) for sheet, region in each) for each in incoming]
    device = next((sheet.part.device for each in incoming for sheet, _ in each), None)
    device = device or next((block.device for each in outgoing for block, _ in each), torch.device("cpu"))
    received = torch.empty(sum(sizes), dtype=torch.uint8, device=device)
    buffer = torch.cat(packed) if packed else torch.empty(0, dtype=torch.uint8, device=device)
    work = dist.all_to_all_single(received, buffer, sizes, sent, group=peers.group, async_op=True)
    # the buffer has to live until it is sent
    return received, sizes, lambda: (work.wait() if work is not None else None, buffer)


def _packed(block: Tensor, region: Region) -> Tensor:
    """The bytes of a block, with zeros up to their padded length."""
    values = block.contiguous().reshape(-1).view(torch.uint8)
    return torch.nn.functional.pad(values, (0, padded(region, block.element_size()) - values.numel()))


def _unpacked(buffer: Tensor, sheets: Sequence[Sheet], regions: Sequence[Region]) -> list[Tensor]:
    """The blocks that lie one after the other in bytes."""
    found, at = [], 0
    for sheet, region in zip(sheets, regions, strict=True):
        size = sheet.part.element_size()
        values = buffer[at : at + region.numel * size].view(sheet.part.dtype)
        found.append(values.view(region.shape))
        at += padded(region, size)
    return found
