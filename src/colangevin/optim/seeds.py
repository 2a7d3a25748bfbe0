"""The seed of the noise, drawn from torch's generator and the same on every rank."""

import torch
import torch.distributed

from colangevin.independence import several

__all__ = ["drawn_seed"]


def drawn_seed(*, independent: bool) -> int:
    """A seed for the noise, drawn from torch's generator. In a distributed job all ranks get rank 0's seed.

    With different seeds the weights of the ranks would drift apart while every loss falls. The seed is sent
    over the default process group, so every rank has to call this.

    Args:
        independent: whether every rank keeps the seed that it has drawn.

    Returns:
        A number of 63 bits.
    """
    seed = int(torch.randint(2**63 - 1, (), device="cpu").item())
    if independent or not several():
        return seed
    agreed = [seed]
    torch.distributed.broadcast_object_list(agreed, src=0)
    return agreed[0]
