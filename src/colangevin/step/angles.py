r"""Sine and cosine of a block of angles, written into memory that is there.

Of angles up to a right angle they are polynomials: their passes over what is in the cache take less time than
a call of the general routine.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor

from colangevin.constraints.trigonometry import COSINE, SINE
from colangevin.scratch import scratch

__all__ = ["largest_angle", "write_cosine", "write_sine"]


def largest_angle(angle: Tensor) -> float:
    """The largest magnitude; NaN if there is one."""
    low, high = angle.aminmax()
    return max(float(high), -float(low))


def write_sine(angle: Tensor, largest: float, scale: float, out: Tensor) -> None:
    """Write ``scale`` times the sine, to two units in the last place, of angles up to ``largest``."""
    if not _few_passes(angle, largest):
        torch.sin(angle, out=out).mul_(scale)
    else:
        torch.mul(angle, _polynomial(angle, tuple(scale * c for c in SINE)), out=out)


def write_cosine(angle: Tensor, largest: float, out: Tensor) -> None:
    """Write the cosine, to two units in the last place of 1, of angles up to ``largest``."""
    if not _few_passes(angle, largest):
        torch.cos(angle, out=out)
    else:
        _polynomial(angle, COSINE, out=out)


def _few_passes(angle: Tensor, largest: float) -> bool:
    return angle.dtype == torch.float32 and largest <= math.pi / 2


def _polynomial(angle: Tensor, coefficients: tuple[float, ...], out: Tensor | None = None) -> Tensor:
    """A polynomial in the square of the angle, the lowest coefficient first: one pass for each."""
    z = torch.mul(angle, angle, out=scratch("square", angle.shape, angle.dtype, angle.device))
    value = scratch("series", angle.shape, angle.dtype, angle.device) if out is None else out
    *rest, last = coefficients
    torch.add(_number(rest.pop()), z, alpha=last, out=value)
    for coefficient in reversed(rest):
        torch.addcmul(_number(coefficient), value, z, out=value)
    return value


@lru_cache(maxsize=256)
@torch.inference_mode(False)  # it is kept for all modes
def _number(value: float) -> Tensor:
    return torch.tensor(value, device="cpu", dtype=torch.float32)
