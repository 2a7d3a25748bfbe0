r"""Sine and cosine of an angle in :math:`[-\pi, \pi]`: torch's own or, in a compiled step, polynomials.

A compiler puts a polynomial into the loop over the weights as a few vector instructions. Of the general
routines, which also reduce arguments of any size, it can only make calls.
"""

import math

import torch
from torch import Tensor

__all__ = ["COSINE", "SINE", "cosine", "sine"]

# pi as the sum of two float32
_PI, _PI_REST = 3.1415927410125732, -8.742277657347586e-08
# Up to a right angle, sin(y) / y with the least relative error, 6e-9, and cos(y) with the least error, 5e-8,
# of polynomials in y^2 that are 1 at 0.
SINE = (1.0, -1.666665955035e-1, 8.333066244500e-3, -1.980960280338e-4, 2.605780446190e-6)
COSINE = (1.0, -4.999993229281e-1, 4.166398944795e-2, -1.385592712955e-3, 2.319438518730e-5)


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
    _, c0, c1, c2, c3 = SINE
    return y + y * (z * (c0 + z * (c1 + z * (c2 + z * c3))))
