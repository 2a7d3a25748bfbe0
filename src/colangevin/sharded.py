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
    kind = _kind(tensor)
    if kind is not None:
        raise ConstraintError(
            f"{label(what, tensor.shape)}: is {kind}, of which a process may hold a part only; constraints "
            "need the whole weight. Use the module before it is sharded, and train it with "
            "torch.nn.parallel.DistributedDataParallel."
        )


def _kind(tensor: Tensor) -> str | None:
    """What kind of shard a tensor is. DTensors exist only once their module has been imported."""
    dtensors = sys.modules.get("torch.distributed.tensor")
    if dtensors is not None and isinstance(tensor, dtensors.DTensor):
        return "a DTensor"
    # FullyShardedDataParallel marks its flat parameter and, with use_orig_params, the pieces cut from it
    if getattr(tensor, "_is_flat_param", False) or getattr(tensor, "_fsdp_flattened", False):
        return "a flat shard of FullyShardedDataParallel"
    return None
