r"""Affine constraint: every row of q, of shape (rows, n), satisfies A q = b.

Leimkuhler et al. 2021, the general steps of Appendix B for g(q) = A q - b, whose Jacobian is A everywhere:
Eq. 41 (Appendix B.1) for the overdamped step, Eqs. 43 and 44 (Appendix B.2) for B and O, and the straight
line, which solves the A component of Eq. 13 exactly.
"""

import math

import torch
from torch import Tensor


def projection(A: Tensor) -> Tensor:
    """The matrix I - A^T (A A^T)^-1 A."""
    identity = torch.eye(A.shape[1], dtype=A.dtype)
    return identity - A.T @ torch.linalg.inv(A @ A.T) @ A


def overdamped(q: Tensor, grad: Tensor, h: float, tau: float, A: Tensor, b: Tensor, noise: Tensor) -> Tensor:
    """Take one Euler-Maruyama step and solve A (q_bar - A^T lam) = b for every row.

    Returns:
        The new q.
    """
    q_bar = q - h * grad + math.sqrt(2 * tau * h) * noise
    lam = (q_bar @ A.T - b) @ torch.linalg.inv(A @ A.T)
    return q_bar - lam @ A


def project(q: Tensor, p: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
    """Project the momentum onto the cotangent space.

    Returns:
        The unchanged q and the projected p.
    """
    return q, p @ projection(A)


def step_a(q: Tensor, p: Tensor, h: float) -> tuple[Tensor, Tensor]:
    """Follow the straight line for a time h.

    Returns:
        The new (q, p).
    """
    return q + h * p, p


def step_b(q: Tensor, p: Tensor, grad: Tensor, h: float, A: Tensor) -> tuple[Tensor, Tensor]:
    """Kick, then project.

    Returns:
        The new (q, p).
    """
    return project(q, p - h * grad, A)


def step_o(
    q: Tensor, p: Tensor, h: float, gamma: float, tau: float, A: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor]:
    """Apply the exact Ornstein-Uhlenbeck step, then project.

    Returns:
        The new (q, p).
    """
    c = math.exp(-gamma * h)
    d = math.sqrt(tau * (1 - math.exp(-2 * gamma * h)))
    return project(q, c * p + d * noise, A)
