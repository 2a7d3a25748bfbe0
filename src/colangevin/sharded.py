"""Parameters of which a process holds a part: DTensors as whole weights, and shards that are refused."""

import sys
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from colangevin.errors import ConstraintError, label

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

__all__ = ["everywhere", "is_sharded", "part", "refuse_sharded", "spread", "whole", "write_"]


def is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether a tensor is a DTensor. These exist only once their module has been imported."""
    dtensors = sys.modules.get("torch.distributed.tensor")
    return dtensors is not None and isinstance(tensor, dtensors.DTensor)


def part(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor."""
    return tensor._local_tensor if is_sharded(tensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor. Of a DTensor every process of its mesh has to ask for it."""
    if not is_sharded(tensor):
        return tensor
    from colangevin.sharding.gathering import gathered  # imports the modules of DTensors

    return gathered(tensor)


def spread(values: Tensor, tensor: Tensor) -> Tensor:
    """Values in the form of a tensor of their shape: spread as it is, or whole.

    Args:
        values: whole ones, the same on every process, or a DTensor.
        tensor: what gives the form.

    Returns:
        The values.
    """
    if not is_sharded(tensor):
        return whole(values)
    from colangevin.sharding.states import like  # imports the modules of DTensors

    return like(values, tensor)


def write_(tensor: Tensor, values: Tensor) -> None:
    """Write whole values into a tensor, each process its own part."""
    tensor.copy_(spread(values, tensor))


def everywhere(tensor: Tensor, holds: bool) -> bool:
    """Whether something holds on every process that has a part of a tensor. All of them have to ask.

    Args:
        tensor: plain, or a DTensor.
        holds: whether it holds here.

    Returns:
        Whether it holds everywhere.
    """
    if not is_sharded(tensor):
        return holds
    said = torch.tensor(int(holds), device=tensor.device_mesh.device_type)
    for dim in range(tensor.device_mesh.ndim):
        torch.distributed.all_reduce(
            said, torch.distributed.ReduceOp.MIN, group=tensor.device_mesh.get_group(dim)
        )
    return bool(said)


def refuse_sharded(tensor: Tensor, what: str) -> None:
    """Raise for a flat shard of ``FullyShardedDataParallel``.

    A flat shard has neither rows nor columns. Every result from it would be wrong, and nothing would show it.

    Args:
        tensor: a parameter.
        what: its name.

    Raises:
        ConstraintError: naming the parameter and what to do.
    """
    # FullyShardedDataParallel marks its flat parameter and, with use_orig_params, the pieces cut from it
    if getattr(tensor, "_is_flat_param", False) or getattr(tensor, "_fsdp_flattened", False):
        raise ConstraintError(
            f"{label(what, tensor.shape)}: is a flat shard of FullyShardedDataParallel, which joins weights "
            "to one vector and cuts it without regard to their rows. Use torch.distributed.fsdp.fully_shard, "
            "which keeps the weights apart, or torch.nn.parallel.DistributedDataParallel."
        )
