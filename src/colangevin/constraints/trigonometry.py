r"""Sine and cosine of an angle in :math:`[-\pi, \pi]`: torch's own or, where they are faster, polynomials.

A compiler puts a polynomial into the loop over the weights as a few vector instructions. Of the general
routines, which also reduce arguments of any size, it can only make calls. Without a compiler, too, the passes
of a polynomial over what is in the cache take less time than such a call.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor

from colangevin.scratch import scratch

__all__ = ["cosine", "largest_angle", "sine", "write_cosine", "write_sine"]

# pi as the sum of two float32
_PI, _PI_REST = 3.1415927410125732, -8.742277657347586e-08
# Up to a right angle, sin(y) / y with the least relative error, 6e-9, and cos(y) with the least error, 5e-8,
# of polynomials in y^2 that are 1 at 0.
_SINE = (1.0, -1.666665955035e-1, 8.333066244500e-3, -1.980960280338e-4, 2.605780446190e-6)
_COSINE = (1.0, -4.999993229281e-1, 4.166398944795e-2, -1.385592712955e-3, 2.319438518730e-5)


def sine(angle: Tensor) -> Tensor:
    """The sine, to two units in the last place when compiled."""
    if not _as_polynomial(angle):
        return angle.sin()
    size = angle.abs()
    value = _sine_near_zero(torch.where(size > math.pi / 2, (_PI - size) + _PI_REST, size))
    return torch.where(angle < 0, -value, value)


def cosine(angle: Tensor) -> Tensor:
    """The cosine, to two units in the last place of 1 when compiled."""
    if not _as_polynomial(angle):
        return angle.cos()
    return _sine_near_zero((_PI / 2 - angle.abs()) + _PI_REST / 2)


def _as_polynomial(angle: Tensor) -> bool:
    return angle.dtype == torch.float32 and torch.compiler.is_compiling()


def _sine_near_zero(y: Tensor) -> Tensor:
    """Sine up to a right angle."""
    z = y * y
    _, c0, c1, c2, c3 = _SINE
    return y + y * (z * (c0 + z * (c1 + z * (c2 + z * c3))))


def largest_angle(angle: Tensor) -> float:
    """The largest magnitude; NaN if there is one."""
    low, high = angle.aminmax()
    return max(float(high), -float(low))


def write_sine(angle: Tensor, largest: float, scale: float, out: Tensor) -> None:
    """Write ``scale`` times the sine, to two units in the last place, of angles up to ``largest``."""
    if not _few_passes(angle, largest):
        torch.sin(angle, out=out).mul_(scale)
    else:
        torch.mul(angle, _polynomial(angle, tuple(scale * c for c in _SINE)), out=out)


def write_cosine(angle: Tensor, largest: float, out: Tensor) -> None:
    """Write the cosine, to two units in the last place of 1, of angles up to ``largest``."""
    if not _few_passes(angle, largest):
        torch.cos(angle, out=out)
    else:
        _polynomial(angle, _COSINE, out=out)


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
