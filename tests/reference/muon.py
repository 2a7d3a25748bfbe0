r"""Muon along a manifold: an averaged tangent gradient whose singular values become 1, and the drift.

Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks", in the coordinates q of a
constraint with the projection Pi of Leimkuhler et al. 2021 and the A component of its Eq. 13. A geometry is
the pair (project, drift) of :mod:`tests.reference.adam`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from .adam import Drift, Project

Direction = Callable[[Tensor, Tensor], Tensor]

COEFFICIENTS = (3.4445, -4.775, 2.0315)


def msign(M: Tensor) -> Tensor:
    """Five quintic Newton-Schulz steps in bfloat16 on the wide one of M and its transpose.

    Returns:
        A matrix with the singular vectors of M and singular values near 1.
    """
    if M.shape[0] > M.shape[1]:
        return msign(M.T.contiguous()).T
    a, b, c = COEFFICIENTS
    X = M.to(torch.bfloat16)
    X = X / max(X.norm(), torch.tensor(1e-7))
    for _ in range(5):
        A = X @ X.T
        B = torch.addmm(A, A, A, beta=b, alpha=c)
        X = torch.addmm(X, B, X, beta=a)
    return X.to(M.dtype)


def step(
    project: Project,
    drift: Drift,
    direction: Direction,
    state: tuple[Tensor, Tensor],
    grad: Tensor,
    lr: float,
    momentum: float,
) -> tuple[Tensor, Tensor]:
    """Take a step with Nesterov's momentum; `direction` makes d from q and the averaged gradient.

    Returns:
        The new (q, m).
    """
    q, m = state
    g = project(q, grad)
    m = momentum * project(q, m) + (1 - momentum) * g
    m_bar = momentum * m + (1 - momentum) * g
    d = project(q, direction(q, m_bar))
    q_new = drift(q, -d, lr)
    return q_new, project(q_new, m)


def rows_turn(project: Project, r: float, slack: bool) -> Direction:
    """On row spheres: d scaled so that its rows turn by the angle lr on average; slack has no column in M.

    Returns:
        The direction.
    """

    def direction(q: Tensor, m_bar: Tensor) -> Tensor:
        d = msign(m_bar[:, :-1] if slack else m_bar)
        d = torch.nn.functional.pad(d, (0, 1)) if slack else d
        d = project(q, d)
        return r * d / d.norm(dim=1).mean()

    return direction


def square_turns(Q: Tensor, m_bar: Tensor) -> Tensor:
    """On square orthogonal matrices: Q msign(skew(Q^T M)).

    Returns:
        The direction.
    """
    S = Q.T @ m_bar
    return Q @ msign(0.5 * (S - S.T))
