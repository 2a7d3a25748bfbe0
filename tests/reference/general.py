r"""General constraint g(q) = 0, g from R^d to R^m, on a flat configuration q = (theta, xi).

Leimkuhler et al. 2021, Appendix B.1 "Discretization of constrained overdamped Langevin (general
constraint)", Eqs. 40 and 41; Appendix B.2 "Discretization of
constrained underdamped Langevin (general constraint)", Eqs. 43 and 44; the projection
of Appendix A. The A component is RATTLE, as Eq. 55
(Appendix B.6) writes it for one constraint.

J is the (m, d) Jacobian of g, so that the paper's nabla_q g is J^T. The gradient `grad` and the
noise have length d; the slack entries of `grad` are zero.

Corrected slips:
    * Eq. 44 prints p_xi_bar = exp(-gamma h) p_c + ...; the old momentum there is p_xi.
    * The Pi_w of Eq. 42 is what must be subtracted from the identity, though Eqs. 43
      and 44 apply it as the projection itself, and its two off-diagonal blocks are
      exchanged. OL_definitionPi has neither problem.
    * Cotangency is printed once as nabla_q g(q) p = 0; it is J(q) p = 0.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.functional import hessian, jacobian

Constraint = Callable[[Tensor], Tensor]

MAX_ITERATIONS = 100
TOLERANCE = 1e-14  # where the iteration stops: a few roundings of float64 for g of order one
ACCEPTED = 1e-11  # what the last iterate must satisfy: rounding may keep it above TOLERANCE


def project(g: Constraint, q: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Project the momentum with Pi = I - J^T (J J^T)^-1 J, Appendix A.

    Returns:
        The unchanged q and the projected p.
    """
    J = jacobian(g, q)
    Pi = torch.eye(q.numel(), dtype=q.dtype) - J.T @ torch.linalg.inv(J @ J.T) @ J
    return q, Pi @ p


def oblique_projection(g: Constraint, q: Tensor, q_bar: Tensor) -> tuple[Tensor, Tensor]:
    """Find lam such that q' = q_bar - J(q)^T lam has g(q') = 0, by Newton's method on lam.

    Returns:
        The pair (q', lam).

    Raises:
        ArithmeticError: If Newton's method does not converge.
    """
    J_n = jacobian(g, q)
    lam = torch.zeros(J_n.shape[0], dtype=q.dtype)
    q_new = q_bar
    for _ in range(MAX_ITERATIONS):
        if g(q_new).abs().max() <= TOLERANCE:
            break
        lam = lam + torch.linalg.solve(jacobian(g, q_new) @ J_n.T, g(q_new))
        q_new = q_bar - J_n.T @ lam
    residual = g(q_new).abs().max()
    if not residual <= ACCEPTED:
        raise ArithmeticError(f"oblique projection: max|g| = {residual:.1e} after Newton's method")
    return q_new, lam


def orthogonal_projection(g: Constraint, q_bar: Tensor) -> tuple[Tensor, Tensor]:
    """Find (q', lam) with q' = q_bar - J(q')^T lam and g(q') = 0, by Newton on the full system.

    Returns:
        The pair (q', lam).

    Raises:
        ArithmeticError: If Newton's method does not converge.
    """

    def system(q: Tensor, lam: Tensor) -> Tensor:
        return torch.cat([q - q_bar + jacobian(g, q).T @ lam, g(q)])

    d = q_bar.numel()
    m = g(q_bar).numel()
    q_new = q_bar
    lam = torch.zeros(m, dtype=q_bar.dtype)
    for _ in range(MAX_ITERATIONS):
        if system(q_new, lam).abs().max() <= TOLERANCE:
            break
        J = jacobian(g, q_new)
        curvature = hessian(lambda q, lam=lam: torch.dot(lam, g(q)), q_new)
        matrix = torch.zeros(d + m, d + m, dtype=q_bar.dtype)
        matrix[:d, :d] = torch.eye(d, dtype=q_bar.dtype) + curvature
        matrix[:d, d:] = J.T
        matrix[d:, :d] = J
        change = torch.linalg.solve(matrix, system(q_new, lam))
        q_new = q_new - change[:d]
        lam = lam - change[d:]
    residual = system(q_new, lam).abs().max()
    if not residual <= ACCEPTED:
        raise ArithmeticError(f"orthogonal projection: residual {residual:.1e} after Newton")
    return q_new, lam


def overdamped(g: Constraint, q: Tensor, grad: Tensor, h: float, tau: float, noise: Tensor) -> Tensor:
    """Take one step of Eq. 40, projecting along J(q_n)^T.

    Returns:
        The new q.
    """
    q_bar = q - h * grad + math.sqrt(2 * tau * h) * noise
    q_new, _ = oblique_projection(g, q, q_bar)
    return q_new


def overdamped_orthogonal(
    g: Constraint, q: Tensor, grad: Tensor, h: float, tau: float, noise: Tensor
) -> Tensor:
    """Take one step of Eq. 41, projecting along J(q_{n+1})^T.

    Returns:
        The new q.
    """
    q_bar = q - h * grad + math.sqrt(2 * tau * h) * noise
    q_new, _ = orthogonal_projection(g, q_bar)
    return q_new


def step_a(g: Constraint, q: Tensor, p: Tensor, h: float) -> tuple[Tensor, Tensor]:
    """Drift by RATTLE, as Eq. 55; lam stands for h times its multiplier.

    Returns:
        The new (q, p).
    """
    q_bar = q + h * p
    q_new, lam = oblique_projection(g, q, q_bar)
    p_bar = p - jacobian(g, q).T @ lam / h
    return project(g, q_new, p_bar)


def step_b(g: Constraint, q: Tensor, p: Tensor, grad: Tensor, h: float) -> tuple[Tensor, Tensor]:
    """Kick, then project, Eq. 43.

    Returns:
        The new (q, p).
    """
    p_bar = p - h * grad
    return project(g, q, p_bar)


def step_o(
    g: Constraint, q: Tensor, p: Tensor, h: float, gamma: float, tau: float, noise: Tensor
) -> tuple[Tensor, Tensor]:
    """Apply the exact Ornstein-Uhlenbeck step, then project, Eq. 44.

    Returns:
        The new (q, p).
    """
    c = math.exp(-gamma * h)
    d = math.sqrt(tau * (1 - math.exp(-2 * gamma * h)))
    p_bar = c * p + d * noise
    return project(g, q, p_bar)
