"""Weights that are drawn at random, the same on every rank of a distributed job."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed
from torch import Tensor

from colangevin.independence import independent, several

__all__ = ["drawn_alike"]

Result = TypeVar("Result")


def drawn_alike(draw: Callable[[], Result], weights: Sequence[tuple[str, Tensor]]) -> Result:
    """What a function draws on the first rank that draws the same weights; alone, what it draws here.

    The ranks share the state of a generator, not the weights: a few kilobytes, and the weights are those that
    one process would draw. Afterwards the generators of every rank are where they would be without the other
    ranks, so that streams which differ by intent, as those of data, still do. All ranks have to call this.
    Ranks with other weights, as the stages of a pipeline have, draw their own.

    Args:
        draw: draws from torch's generators and changes nothing else.
        weights: what is drawn, with names.

    Returns:
        What ``draw`` returns.
    """
    if independent() or not several():
        return draw()
    devices = list(dict.fromkeys(weight.device for _, weight in weights))
    what = [(name, tuple(each.shape), each.dtype, devices.index(each.device)) for name, each in weights]
    key, own = hashlib.sha256(repr(what).encode()).hexdigest(), _states(devices)
    everyone: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(everyone, (key, own))
    first = next(states for theirs, states in everyone if theirs == key)
    if _equal(first, own):
        return draw()
    _set_states(devices, first)
    try:
        drawn = draw()
        moved = not _equal(_states(devices), first)
    finally:
        _set_states(devices, own)
    if moved:
        draw()  # for what it does to the rank's own generators
    return drawn


def _states(devices: Iterable[torch.device]) -> list[Tensor]:
    """The states of the generators that weights on these devices are drawn from."""
    return [_module(device).get_rng_state(*_index(device)) for device in devices]


def _set_states(devices: Iterable[torch.device], states: Iterable[Tensor]) -> None:
    for device, state in zip(devices, states, strict=True):
        _module(device).set_rng_state(state, *_index(device))


def _module(device: torch.device) -> Any:
    """What has the generators of a device."""
    return torch if device.type == "cpu" else torch.get_device_module(device)


def _index(device: torch.device) -> tuple[torch.device, ...]:
    return () if device.type == "cpu" else (device,)


def _equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(map(torch.equal, one, other))
