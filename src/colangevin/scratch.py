"""Memory for intermediate results on the CPU, kept from call to call: new pages cost more than a pass."""

import threading
from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from colangevin.surroundings import lasting

__all__ = ["scratch", "scratches"]

_LARGEST = 1 << 18  # elements of a tensor that is kept; larger ones are not worth keeping


class _Kept(threading.local):
    """The tensors that a thread has been given so far."""

    def __init__(self) -> None:
        self.tensors: dict[tuple[str, torch.dtype], Tensor] = {}


_kept = _Kept()


def scratch(slot: str, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of any content, which the next call for the same slot and dtype overwrites.

    Args:
        slot: its name; two tensors in use at a time need two names.
        shape: its shape.
        dtype: its dtype.
        device: its device; memory is kept on the CPU only.

    Returns:
        The tensor.
    """
    count = prod(shape)
    if device.type != "cpu" or count > _LARGEST:
        return torch.empty(shape, dtype=dtype, device=device)
    flat = _kept.tensors.get((slot, dtype))
    if flat is None or flat.numel() < count:
        flat = _kept.tensors[slot, dtype] = _room(count, dtype)
    return flat[:count].view(shape)


def scratches(
    slots: Sequence[str], shape: Sequence[int], dtype: torch.dtype, device: torch.device
) -> list[Tensor]:
    """A :func:`scratch` for each slot, all of one shape."""
    return [scratch(slot, shape, dtype, device) for slot in slots]


@lasting
def _room(count: int, dtype: torch.dtype) -> Tensor:
    return torch.empty(count, dtype=dtype, device="cpu")
