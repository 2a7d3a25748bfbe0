"""Refuses sharded parameters: a process holds a part of each, and a step needs the whole weight."""

import sys

from torch import Tensor

from colangevin.errors import ConstraintError, label

__all__ = ["refuse_sharded"]


def refuse_sharded(tensor: Tensor, what: str) -> None:
    """Raise for a DTensor, and for a flat shard of ``FullyShardedDataParallel``.

    The local part of a weight has other rows, norms and products than the weight. Every result from it would
    be wrong, and nothing would show it.

    Args:
        tensor: a parameter.
        what: its name.

    Raises:
        ConstraintError: naming the parameter and what to do.
    """
    who = label(what, tensor.shape)
    if _flat(tensor):
        raise ConstraintError(
            f"{who}: is a flat shard of FullyShardedDataParallel, which joins weights to "
            "one vector and cuts it without regard to their rows. Use torch.distributed.fsdp.fully_shard, "
            "which keeps the weights apart, or torch.nn.parallel.DistributedDataParallel."
        )
    if _dtensor(tensor):
        raise ConstraintError(
            f"{who}: is a DTensor, of which a process may hold a part only; constraints "
            "need the whole weight. Use the module before it is sharded, and train it with "
            "torch.nn.parallel.DistributedDataParallel."
        )


def _flat(tensor: Tensor) -> bool:
    """Whether ``FullyShardedDataParallel`` has marked it: as flat, or as a piece cut from what is."""
    return getattr(tensor, "_is_flat_param", False) or getattr(tensor, "_fsdp_flattened", False)


def _dtensor(tensor: Tensor) -> bool:
    """Whether it is a DTensor, which exist only once their module has been imported."""
    dtensors = sys.modules.get("torch.distributed.tensor")
    return dtensors is not None and isinstance(tensor, dtensors.DTensor)
