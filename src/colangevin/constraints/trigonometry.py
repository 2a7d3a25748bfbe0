r"""Sine and cosine of an angle in :math:`[-\pi, \pi]`: torch's own or, in a compiled step, polynomials.

A compiler puts a polynomial into the loop over the weights as a few vector instructions. Of the general
routines, which also reduce arguments of any size, it can only make calls.
"""

import math

import torch
from torch import Tensor

__all__ = ["cosine", "sine"]

# pi as the sum of two float32
_PI, _PI_REST = 3.1415927410125732, -8.742277657347586e-08


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
    """The odd polynomial with the least relative error on [-pi/2, pi/2], 6e-9."""
    z = y * y
    series = -1.666665955035e-1 + z * (8.333066244500e-3 + z * (-1.980960280338e-4 + z * 2.605780446190e-6))
    return y + y * (z * series)
