"""Split: a weight whose parts move together, by sums over the processes that hold them.

``all_reduce`` gives every process the same bits. So whatever follows from a sum entry by entry is the same on
all of them. A product of matrices may round otherwise on another process: a decision that depends on one is
taken by all together, since a process that went another way would wait for sums that nobody else takes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from colangevin.sharding.layout import Layout
from colangevin.sharding.peers import Peers

__all__ = ["Split"]


@dataclass(frozen=True)
class Split:
    """The processes that have parts of one weight. Every one of them has to call each method.

    Attributes:
        layout: of the weight.
        peers: those whose parts move together.
    """

    layout: Layout
    peers: Peers

    def sum(self, part: Tensor) -> Tensor:
        """The sum over all peers."""
        return self._reduced(part, dist.ReduceOp.SUM)

    def largest(self, part: Tensor) -> Tensor:
        """The largest over all peers, entry by entry."""
        return self._reduced(part, dist.ReduceOp.MAX)

    def any(self, flags: Tensor) -> Tensor:
        """What at least one peer says, entry by entry."""
        return self.largest(flags.to(torch.uint8)).bool()

    def through_whole(self, part: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """The own part of a function of the whole, for what is rare: all parts are sent to all peers.

        The first peer computes it for all: a function that has to choose chooses once.

        Args:
            part: of shape (copies, s, n), where only n differs between peers.
            function: of all parts, one after the other along the last dimension. It keeps the shape.

        Returns:
            The new part.
        """
        lengths = [self.layout.region(place).numel // part.shape[-2] for place in self.peers.coordinates]
        # parts of different lengths: all are sent as long as the longest
        sent = torch.nn.functional.pad(part, (0, max(lengths) - part.shape[-1])).contiguous()
        received = [torch.empty_like(sent) for _ in lengths]
        dist.all_gather(received, sent, group=self.peers.group)
        whole = torch.cat([each[..., :n] for each, n in zip(received, lengths, strict=True)], -1)
        result = (function(whole) if self.peers.me == 0 else whole).contiguous()
        dist.broadcast(result, group=self.peers.group, group_src=0)
        parts: tuple[Tensor, ...] = result.split(lengths, -1)
        return parts[self.peers.me]

    def _reduced(self, part: Tensor, operation: dist.ReduceOp.RedOpType) -> Tensor:
        total = part.contiguous()
        dist.all_reduce(total, operation, group=self.peers.group)
        return total
