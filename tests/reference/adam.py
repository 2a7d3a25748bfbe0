r"""Adam along a manifold: the averages of tangent gradients, a quotient entry by entry, and the drift.

Kingma and Ba 2015, Algorithm 1, with the decoupled decay of Loshchilov and Hutter 2019, in the coordinates q
of a constraint with the projection Pi of Leimkuhler et al. 2021 and the A component of its Eq. 13. A geometry
is the pair (project, drift); the gradient `grad` and the decay direction are in the coordinates of q.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Project = Callable[[Tensor, Tensor], Tensor]
Drift = Callable[[Tensor, Tensor, float], Tensor]
State = tuple[Tensor, Tensor, Tensor]


def step(
    project: Project,
    drift: Drift,
    state: State,
    grad: Tensor,
    t: int,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    decay: Tensor | float = 0.0,
) -> State:
    """Take step number t, from 1; `decay` is weight decay times the weight.

    Returns:
        The new (q, m, v).
    """
    q, m, v = state
    beta_1, beta_2 = betas
    g = project(q, grad)
    m = beta_1 * project(q, m) + (1 - beta_1) * g
    v = beta_2 * v + (1 - beta_2) * g * g
    m_hat = m / (1 - beta_1**t)
    v_hat = v / (1 - beta_2**t)
    d = m_hat / (torch.sqrt(v_hat) + eps)
    d = project(q, d + decay)
    q_new = drift(q, -d, lr)
    return q_new, project(q_new, m), v


def circle_step(
    state: State,
    grad: Tensor,
    t: int,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    r: float,
) -> State:
    """The same on circles theta = r sin(s / r), whose coordinate s is the arc.

    The tangent of an arc is one-dimensional, so nothing has to be projected.

    Returns:
        The new (s, m, v).
    """
    s, _, _ = state
    theta, cosine = r * torch.sin(s / r), torch.cos(s / r)
    return step(
        lambda s, p: p,
        lambda s, p, h: r * torch.remainder((s + h * p) / r + math.pi, 2 * math.pi) - r * math.pi,
        state,
        cosine * grad,
        t,
        lr,
        betas,
        eps,
        weight_decay * cosine * theta,
    )
