"""A DTensor as one tensor, from the parts that all processes hold."""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from colangevin.sharding.layout import layout_of
from colangevin.sharding.peers import peers

__all__ = ["gathered"]


@torch.no_grad()
def gathered(tensor: DTensor) -> Tensor:
    """All of a DTensor, by one collective whatever its placements are. Every process of its mesh has to ask.

    Args:
        tensor: a parameter, a gradient or a tensor of the state.

    Returns:
        A plain tensor, the same on every process.
    """
    layout = layout_of(tensor, f"a tensor of shape {tuple(tensor.shape)}")
    part = tensor._local_tensor.detach()
    if not layout.cutting:
        return part.clone()
    theirs = peers(tensor.device_mesh, layout.cutting)
    regions = [layout.region(place) for place in theirs.coordinates]
    # parts of different lengths: all are sent as long as the longest
    longest = max(region.numel for region in regions)
    sent = torch.nn.functional.pad(part.reshape(-1), (0, longest - part.numel()))
    received = [torch.empty_like(sent) for _ in regions]
    dist.all_gather(received, sent, group=theirs.group)
    whole = part.new_empty(layout.whole)
    for region, values in zip(regions, received, strict=True):
        whole[region.slices] = values[: region.numel].view(region.shape)
    return whole
