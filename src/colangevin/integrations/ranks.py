"""Whether the ranks of a distributed job train the same model with the same noise."""

import hashlib
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from colangevin.errors import ConstraintError, label
from colangevin.optim.base import ConstrainedOptimizer

__all__ = ["check_ranks"]


def check_ranks(optimizer: ConstrainedOptimizer) -> None:
    """Raise unless all ranks hold the same weights, bit for bit, and the same seeds.

    Gradients are averaged over the ranks, weights are not. Ranks that begin with other weights or other noise
    stay apart, and each of their losses falls all the same. All ranks have to call this, and all raise the
    same error. Outside of a distributed job it does nothing.

    Args:
        optimizer: one of this library's.

    Raises:
        ConstraintError: naming the parameter or the group, and the rank.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return
    everyone: list[dict[str, Any]] = [{}] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(everyone, _held(optimizer))
    first = everyone[0]
    for rank, theirs in enumerate(everyone[1:], start=1):
        for what in {**first, **theirs}:
            if theirs.get(what) != first.get(what):
                raise ConstraintError(_words(what, rank, theirs.get(what), first.get(what)))


def _held(optimizer: ConstrainedOptimizer) -> dict[str, Any]:
    """A digest of every parameter and the seed of every group, by what they are called in an error."""
    found: dict[str, Any] = {}
    for number, group in enumerate(optimizer.param_groups):
        for name, parameter in zip(optimizer._names(number), group["params"], strict=True):
            found[label(name, parameter.shape)] = _digest(parameter)
    for number, group in enumerate(optimizer.param_groups):
        found[f"seed in param_groups[{number}]"] = group["seed"]
    return found


def _digest(parameter: Tensor) -> str:
    values = parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(values.numpy().tobytes()).hexdigest()


def _words(what: str, rank: int, theirs: object, first: object) -> str:
    if what.startswith("seed"):
        return (
            f"{what}: rank {rank} has {theirs!r}, rank 0 has {first!r}, so their noise would differ. Give "
            "every rank the same seed, or seed=None: the ranks then draw one together."
        )
    if theirs is None or first is None:
        missing = rank if theirs is None else 0
        return f"{what}: rank {missing} does not have it. Build the same model and optimizer on every rank."
    return (
        f"{what}: rank {rank} holds other values than rank 0, so the ranks would train different models. "
        "Seed every rank alike before weights are drawn, or load the same checkpoint on every rank."
    )
