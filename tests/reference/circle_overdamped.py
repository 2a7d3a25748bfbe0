r"""Circle constraint, overdamped Langevin (c-CoLod).

Leimkuhler et al. 2021, Appendix B.3 "Circle constraint, overdamped Langevin (c-CoLod)",
Eq. 46. The constraint is theta^2 + xi^2 = r^2, one slack xi for each weight theta
(Eq. 2).

Corrected slip: the paper projects with arctan(xi / theta), which sends every point to the half
circle theta >= 0. The angle of a point is atan2(xi, theta).
"""

import math

import torch
from torch import Tensor


def step(
    theta: Tensor,
    xi: Tensor,
    grad: Tensor,
    h: float,
    tau: float,
    r: float | Tensor,
    noise_theta: Tensor,
    noise_xi: Tensor,
) -> tuple[Tensor, Tensor]:
    """Take one Euler-Maruyama step and project it orthogonally onto the circles.

    Returns:
        The new (theta, xi).
    """
    theta_bar = theta - h * grad + math.sqrt(2 * tau * h) * noise_theta
    xi_bar = xi + math.sqrt(2 * tau * h) * noise_xi
    alpha = torch.atan2(xi_bar, theta_bar)
    theta_new = r * torch.cos(alpha)
    xi_new = r * torch.sin(alpha)
    return theta_new, xi_new
