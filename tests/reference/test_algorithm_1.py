"""Where Algorithm 1's loop converges, and where it cannot: why the orthogonal step needs a fallback."""

import torch
from torch import Tensor

from . import orthogonal_overdamped
from .cases import CLOSED, H


def orthogonality_error(Q: Tensor) -> float:
    """Return the largest entry of |Q^T Q - I|."""
    return (Q.T @ Q - torch.eye(Q.shape[1], dtype=Q.dtype)).abs().max().item()


def tangent_step(sigma: float, iterations: int) -> Tensor:
    """Return the step of Algorithm 1 under the force -P without noise; P is tangent, h ||P||_2 = sigma."""
    case = CLOSED["orthogonal-tall"]
    Q, P = case.q.view(5, 3), case.p.view(5, 3)
    P = sigma / H * P / torch.linalg.matrix_norm(P, ord=2)
    return orthogonal_overdamped.step(Q, -P, H, 0.0, torch.zeros_like(Q), iterations)


def test_algorithm_1_converges_on_a_short_step() -> None:
    """At h ||P||_2 = sigma = 0.1 five iterations leave less than sigma^2 sigma^5 = 1e-7.

    Q_bar misses by sigma^2, and near the solution an iteration contracts by h ||Q^T P||_2 <= sigma
    to leading order.
    """
    assert orthogonality_error(tangent_step(0.1, 5)) < 1e-7


def test_algorithm_1_blows_up_on_a_long_step() -> None:
    """At h ||P||_2 = 1.5 five iterations end further from the manifold than they began.

    There is nothing to converge to. Write h P = Q A + N, A skew and Q^T N = 0. A solution needs
    (S + A)^T (S + A) = I - N^T N with S = I - Lambda symmetric, hence ||A||_2 <= 1 and
    ||N||_2 <= 1, and so h ||P||_2 <= sqrt(2). Thirty iterations overflow float64.
    """
    start = orthogonality_error(tangent_step(1.5, 0))
    assert orthogonality_error(tangent_step(1.5, 5)) > max(1.0, start)
    assert not torch.isfinite(tangent_step(1.5, 30)).all()
