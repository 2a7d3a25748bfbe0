r"""Orthogonality constraint, underdamped Langevin (o-CoLud).

Leimkuhler et al. 2021, Section 4.3, Eq. 14 and Algorithm 2; the displays (A, OG),
(B, OG), (O, OG) of Appendix B.6 "Orthogonality constraint, underdamped Langevin (o-CoLud)".
Constraint Q^T Q = I_s for Q of shape (r, s), r >= s; cotangency P^T Q + Q^T P = 0.

Corrected slips:
    * Algorithm 2 and (B, OG) drop the bar of P_bar in places: what is projected is P_bar.
    * Algorithm 2 labels the noise step (C); it is the O of the text.
    * Appendix B.6 equates -Q_n Lambda_bar with the sum of the Q_n Lambda^(k); the sum needs a
      minus sign. Its conclusion, P_bar = P_n + (Q_{n+1} - Q_bar) / h, is right and is used here.
"""

import math

import torch
from torch import Tensor


def project(Q: Tensor, P: Tensor) -> tuple[Tensor, Tensor]:
    """Project the momentum onto the cotangent space at Q, Eq. 14.

    Returns:
        The unchanged Q and the projected P.
    """
    return Q, P - 0.5 * Q @ (P.T @ Q + Q.T @ P)


def step_a(Q: Tensor, P: Tensor, h: float, iterations: int) -> tuple[Tensor, Tensor]:
    """Drift by RATTLE with a fixed number of quasi-Newton iterations, display (A, OG).

    Returns:
        The new (Q, P).
    """
    identity = torch.eye(Q.shape[1], dtype=Q.dtype)
    Q_bar = Q + h * P
    Q_k = Q_bar
    for _ in range(iterations):
        Lambda_k = 0.5 * (Q_k.T @ Q_k - identity)
        Q_k = Q_k - Q @ Lambda_k
    Q_new = Q_k
    P_bar = P + (Q_new - Q_bar) / h
    return project(Q_new, P_bar)


def step_b(Q: Tensor, P: Tensor, grad: Tensor, h: float) -> tuple[Tensor, Tensor]:
    """Kick, then project, display (B, OG).

    Returns:
        The new (Q, P).
    """
    P_bar = P - h * grad
    return project(Q, P_bar)


def step_o(Q: Tensor, P: Tensor, h: float, gamma: float, tau: float, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Apply the exact Ornstein-Uhlenbeck step, then project, display (O, OG).

    Returns:
        The new (Q, P).
    """
    c = math.exp(-gamma * h)
    d = math.sqrt(tau * (1 - math.exp(-2 * gamma * h)))
    P_bar = c * P + d * noise
    return project(Q, P_bar)
