"""A seed from torch's generator, one and the same on every rank."""

import torch
import torch.distributed

__all__ = ["drawn_seed"]


def drawn_seed() -> int:
    """A seed for noise: ``torch.manual_seed`` governs it, and rank 0's holds for all of a distributed job.

    With ranks of different seeds the weights would drift apart while every loss falls. The default process
    group takes part, so every rank has to come here.

    Returns:
        A number of 63 bits.
    """
    seed = int(torch.randint(2**63 - 1, (), device="cpu").item())
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return seed
    if torch.distributed.get_world_size() == 1:
        return seed
    agreed = [seed]
    torch.distributed.broadcast_object_list(agreed, src=0)
    return agreed[0]
