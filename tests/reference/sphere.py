r"""Sphere constraint: every row of q, of shape (rows, n), has norm r.

Leimkuhler et al. 2021, Section 3 "Neural Networks with Constraints", Eq. 3. The
paper states the constraint and leaves the method open. What follows specialises its general
steps: Eq. 41 (Appendix B.1) for the overdamped step, Eqs. 43 and 44
(Appendix B.2) for B and O, and the great circle, which solves the A component of Eq. 13
exactly. With n = 2 and q = (theta, xi) the row is one circle of Appendix B.3 and B.4.

With slack, the last column of q holds xi and the last column of grad is zero.
"""

import math

import torch
from torch import Tensor


def overdamped(q: Tensor, grad: Tensor, h: float, tau: float, r: float | Tensor, noise: Tensor) -> Tensor:
    """Take one Euler-Maruyama step and scale every row back to norm r.

    Returns:
        The new q.
    """
    q_bar = q - h * grad + math.sqrt(2 * tau * h) * noise
    return r * q_bar / q_bar.norm(dim=1, keepdim=True)


def project(q: Tensor, p: Tensor, r: float | Tensor) -> tuple[Tensor, Tensor]:
    """Project the momentum onto the cotangent space at q.

    Returns:
        The unchanged q and the projected p.
    """
    q_dot_p = (q * p).sum(dim=1, keepdim=True)
    return q, p - q_dot_p / r**2 * q


def step_a(q: Tensor, p: Tensor, h: float, r: float | Tensor) -> tuple[Tensor, Tensor]:
    """Follow the great circle for a time h.

    With s = |p| and phi = s h / r, the coefficient r sin(phi) / s is written h sin(phi) / phi, so
    that a row at rest needs no division by zero.

    Returns:
        The new (q, p).
    """
    s = p.norm(dim=1, keepdim=True)
    phi = s * h / r
    q_new = torch.cos(phi) * q + h * torch.sinc(phi / math.pi) * p
    p_new = torch.cos(phi) * p - s * torch.sin(phi) / r * q
    return q_new, p_new


def step_b(q: Tensor, p: Tensor, grad: Tensor, h: float, r: float | Tensor) -> tuple[Tensor, Tensor]:
    """Kick, then project.

    Returns:
        The new (q, p).
    """
    p_bar = p - h * grad
    return project(q, p_bar, r)


def step_o(
    q: Tensor, p: Tensor, h: float, gamma: float, tau: float, r: float | Tensor, noise: Tensor
) -> tuple[Tensor, Tensor]:
    """Apply the exact Ornstein-Uhlenbeck step, then project.

    Returns:
        The new (q, p).
    """
    c = math.exp(-gamma * h)
    d = math.sqrt(tau * (1 - math.exp(-2 * gamma * h)))
    p_bar = c * p + d * noise
    return project(q, p_bar, r)
