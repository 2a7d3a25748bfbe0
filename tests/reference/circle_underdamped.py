r"""Circle constraint, underdamped Langevin (c-CoLud), in the paper's four variables.

Leimkuhler et al. 2021, Appendix B.4 "Circle constraint, underdamped Langevin (c-CoLud)": the
unnumbered displays (A), (B) and (O) at the end of the section, and the componentwise form of the
projection Pi_w above them. Constraint theta^2 + xi^2 = r^2, cotangency theta p_c + xi p_xi = 0.

Corrected slips:
    * The O step prints p_xi_bar = exp(-gamma h) p_c + ...; the old momentum there is p_xi.
    * The B step writes bars over its results; they are final, the projection is worked in.
    * The text sets omega = 2 lambda. From w'' = -2 lambda w it is omega^2 = 2 lambda; the formula
      for omega that the A step uses is right.
"""

import math

import torch
from torch import Tensor

FourVariables = tuple[Tensor, Tensor, Tensor, Tensor]


def project(theta: Tensor, xi: Tensor, p_c: Tensor, p_xi: Tensor, r: float | Tensor) -> FourVariables:
    """Project the momentum onto the cotangent space at (theta, xi), the map Pi_w.

    Returns:
        The unchanged (theta, xi) and the projected (p_c, p_xi).
    """
    p_c_new = p_c - theta / r**2 * (theta * p_c + xi * p_xi)
    p_xi_new = p_xi - xi / r**2 * (theta * p_c + xi * p_xi)
    return theta, xi, p_c_new, p_xi_new


def step_a(
    theta: Tensor, xi: Tensor, p_c: Tensor, p_xi: Tensor, h: float, r: float | Tensor
) -> FourVariables:
    """Rotate for a time h with the angular speed omega, display (A).

    Returns:
        The new (theta, xi, p_c, p_xi).
    """
    omega = (xi * p_c - theta * p_xi) / r**2
    theta_new = torch.cos(omega * h) * theta + torch.sin(omega * h) * xi
    xi_new = -torch.sin(omega * h) * theta + torch.cos(omega * h) * xi
    p_c_new = omega * (-torch.sin(omega * h) * theta + torch.cos(omega * h) * xi)
    p_xi_new = -omega * (torch.cos(omega * h) * theta + torch.sin(omega * h) * xi)
    return theta_new, xi_new, p_c_new, p_xi_new


def step_b(
    theta: Tensor,
    xi: Tensor,
    p_c: Tensor,
    p_xi: Tensor,
    grad: Tensor,
    h: float,
    r: float | Tensor,
) -> FourVariables:
    """Kick with the projected gradient, display (B).

    Returns:
        The new (theta, xi, p_c, p_xi).
    """
    p_c_new = p_c - h * (1 - theta**2 / r**2) * grad
    p_xi_new = p_xi + h * theta * xi / r**2 * grad
    return theta, xi, p_c_new, p_xi_new


def step_o(
    theta: Tensor,
    xi: Tensor,
    p_c: Tensor,
    p_xi: Tensor,
    h: float,
    gamma: float,
    tau: float,
    r: float | Tensor,
    noise_c: Tensor,
    noise_xi: Tensor,
) -> FourVariables:
    """Apply the exact Ornstein-Uhlenbeck step and project, display (O).

    Returns:
        The new (theta, xi, p_c, p_xi).
    """
    c = math.exp(-gamma * h)
    d = math.sqrt(tau * (1 - math.exp(-2 * gamma * h)))
    p_c_bar = c * p_c + d * noise_c
    p_xi_bar = c * p_xi + d * noise_xi
    p_c_new = (1 - theta**2 / r**2) * p_c_bar - theta * xi / r**2 * p_xi_bar
    p_xi_new = -theta * xi / r**2 * p_c_bar + (1 - xi**2 / r**2) * p_xi_bar
    return theta, xi, p_c_new, p_xi_new
