r"""Orthogonality constraint, overdamped Langevin (o-CoLod).

Leimkuhler et al. 2021, Section 4.3, Algorithm 1; derived in Appendix B.5 "Orthogonality
constraint, overdamped Langevin dynamics (o-CoLod)",
Eq. 54. Constraint Q^T Q = I_s for Q of shape (r, s).

Corrected slip: Section 4.3 takes Q = W when W has no more rows than columns. As in Appendix B.5
it is the other way round: Q must be the tall one, r >= s.

The loop has a fixed length and no test of convergence, as printed; far from the manifold it
diverges.
"""

import math

import torch
from torch import Tensor


def step(Q: Tensor, grad: Tensor, h: float, tau: float, noise: Tensor, iterations: int) -> Tensor:
    """Take one Euler-Maruyama step and run the quasi-Newton loop, Algorithm 1.

    Returns:
        The new Q.
    """
    identity = torch.eye(Q.shape[1], dtype=Q.dtype)
    Q_k = Q - h * grad + math.sqrt(2 * tau * h) * noise
    for _ in range(iterations):
        Q_k = Q_k - 0.5 * Q @ (Q_k.T @ Q_k - identity)
    return Q_k
