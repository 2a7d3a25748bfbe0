"""Checksums of weights, computed where the weights are: equal for equal bits on any device."""

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["checksums"]

# As many elements at once, each with a factor of its own. A product takes 8 bytes: more at once would cost
# memory, fewer would cost launches on a device.
_AT_ONCE = 2**18
# Multiplies the sum so far. Odd, as all factors are: modulo 2^64 a product with an odd number loses no bit.
_CARRY = 0x5DEECE66D
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32}


def checksums(weights: Iterable[Tensor]) -> list[int]:
    """64 bits for each weight, which depend on all its bits and their order. A device is waited for once.

    Args:
        weights: of any dtypes, on any devices.

    Returns:
        A number for each.
    """
    generator = torch.Generator(device="cpu").manual_seed(0)
    factors = torch.randint(-(2**63), 2**63 - 1, (_AT_ONCE,), generator=generator, device="cpu") | 1
    factors_on: dict[torch.device, Tensor] = {}
    sums_on: dict[torch.device, list[Tensor]] = {}
    places: list[tuple[torch.device, int]] = []
    for weight in weights:
        if weight.device not in sums_on:
            factors_on[weight.device], sums_on[weight.device] = factors.to(weight.device), []
        sums = sums_on[weight.device]
        places.append((weight.device, len(sums)))
        sums.append(_checksum(weight, factors_on[weight.device]))
    read = {device: torch.stack(sums).tolist() for device, sums in sums_on.items()}
    return [read[device][place] for device, place in places]


def _checksum(weight: Tensor, factors: Tensor) -> Tensor:
    bits = weight.detach().contiguous().view(-1).view(_INTEGERS.get(weight.element_size(), torch.int32))
    total = torch.zeros((), dtype=torch.int64, device=weight.device)
    for part in bits.split(_AT_ONCE):
        total = total * _CARRY + (part * factors[: len(part)]).sum()
    return total
