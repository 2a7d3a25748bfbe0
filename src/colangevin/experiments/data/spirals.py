r"""Planar spirals: two interleaved classes that a classifier has to wind around.

A point of the first class is

.. math::
    x = R\sqrt{t}\,\cos(2\pi k\sqrt{t}) + s\,\mathcal{N}(0, 1), \qquad
    y = R\sqrt{t}\,\sin(2\pi k\sqrt{t}) + s\,\mathcal{N}(0, 1), \qquad t \sim \mathcal{U}(0, 1),

with outer radius R, number of turns k and noise s; the second class turns the angle by :math:`\pi`.
The square root spreads the points evenly over the disc rather than along the arm.
"""

import math

import torch
from torch import Tensor

__all__ = ["four_turn_spiral", "spiral", "two_turn_spiral"]


def four_turn_spiral(
    n: int, *, noise: float = 0.02, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """The :func:`spiral` of the orthogonality experiments: Leimkuhler et al. 2021, Appendix D.1, Eq. (65)."""
    return spiral(n, radius=2.0, turns=4, noise=noise, generator=generator)


def two_turn_spiral(
    n: int, *, noise: float = 0.05, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """The :func:`spiral` of the circle experiments: Leimkuhler et al. 2021, Appendix D.2, Eq. (66)."""
    return spiral(n, radius=1.0, turns=2, noise=noise, generator=generator)


def spiral(
    n: int, *, radius: float, turns: int, noise: float, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Points of two interleaved spirals.

    Args:
        n: number of points; the classes get half each, the first one more when n is odd.
        radius: R.
        turns: k.
        noise: s, the standard deviation of the noise on each coordinate.
        generator: source of randomness; torch's default one when None.

    Returns:
        Points of shape (n, 2) and labels 0.0 or 1.0 of shape (n,), the classes taking turns.
    """
    labels = torch.arange(n) % 2
    root_t = torch.rand(n, generator=generator).sqrt()
    angle = 2 * math.pi * turns * root_t + math.pi * labels
    arm = radius * root_t.unsqueeze(1) * torch.stack((angle.cos(), angle.sin()), dim=1)
    return arm + noise * torch.randn(n, 2, generator=generator), labels.to(arm.dtype)
