r"""Unconstrained parameters theta^u: the overdamped step and the letters A, B, O.

Leimkuhler et al. 2021. Overdamped: first line of Eq. 46 (Appendix B.3).
Letters: the lines for theta^u and p^u in the displays (A), (B), (O) of Appendix B.4.
"""

import math

from torch import Tensor


def overdamped(theta: Tensor, grad: Tensor, h: float, tau: float, noise: Tensor) -> Tensor:
    """Take one Euler-Maruyama step.

    Returns:
        The new theta.
    """
    return theta - h * grad + math.sqrt(2 * tau * h) * noise


def step_a(theta: Tensor, p: Tensor, h: float) -> tuple[Tensor, Tensor]:
    """Drift.

    Returns:
        The new (theta, p).
    """
    return theta + h * p, p


def step_b(theta: Tensor, p: Tensor, grad: Tensor, h: float) -> tuple[Tensor, Tensor]:
    """Kick.

    Returns:
        The new (theta, p).
    """
    return theta, p - h * grad


def step_o(
    theta: Tensor, p: Tensor, h: float, gamma: float, tau: float, noise: Tensor
) -> tuple[Tensor, Tensor]:
    """Apply the exact Ornstein-Uhlenbeck step.

    Returns:
        The new (theta, p).
    """
    c = math.exp(-gamma * h)
    d = math.sqrt(tau * (1 - math.exp(-2 * gamma * h)))
    return theta, c * p + d * noise
