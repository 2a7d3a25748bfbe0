"""The closed forms of circle, sphere and free parameters, against one another and against equal forms."""

import math

import torch
from torch import Tensor

from . import circle_overdamped, circle_underdamped, free, sphere
from .cases import CLOSED, GAMMA, TAU, H, assert_same, normal


def test_circle_letters_equal_the_angle_and_angular_speed_form() -> None:
    """Fifty OBA steps in (theta, xi, p_c, p_xi) and in (alpha, omega) agree (TOL).

    With theta = r cos(alpha), xi = r sin(alpha), p_c = omega xi, p_xi = -omega theta, the letters
    are O: omega <- c omega + sqrt(tau (1 - c^2)) / r R; B: omega <- omega - h xi G / r^2;
    A: alpha <- alpha - h omega. R is the component of the noise along (xi, -theta) / r.
    """
    generator = torch.Generator().manual_seed(4)
    n = 7
    r = torch.linspace(0.3, 1.5, n, dtype=torch.float64)
    alpha = normal(generator, n)
    omega = normal(generator, n)
    theta, xi = r * torch.cos(alpha), r * torch.sin(alpha)
    p_c, p_xi = omega * xi, -omega * theta
    c = math.exp(-GAMMA * H)
    for _ in range(50):
        noise_c, noise_xi = normal(generator, n), normal(generator, n)
        grad = torch.sin(3 * theta) + theta

        noise = (torch.sin(alpha) * noise_c) - (torch.cos(alpha) * noise_xi)
        omega = c * omega + math.sqrt(TAU * (1 - c**2)) / r * noise
        omega = omega - H * r * torch.sin(alpha) * grad / r**2
        alpha = alpha - H * omega

        state = (theta, xi, p_c, p_xi)
        state = circle_underdamped.step_o(*state, H, GAMMA, TAU, r, noise_c, noise_xi)
        state = circle_underdamped.step_b(*state, grad, H, r)
        theta, xi, p_c, p_xi = circle_underdamped.step_a(*state, H, r)

        assert_same(theta, r * torch.cos(alpha))
        assert_same(xi, r * torch.sin(alpha))
        assert_same(p_c, omega * r * torch.sin(alpha))
        assert_same(p_xi, -omega * r * torch.cos(alpha))


def test_circle_overdamped_stays_in_its_quadrant() -> None:
    """Without force and noise nothing moves; arctan for atan2 would fold theta < 0 over (TOL)."""
    zero = torch.zeros(4, dtype=torch.float64)
    theta = torch.tensor([0.6, -0.6, -0.6, 0.6], dtype=torch.float64)
    xi = torch.tensor([0.8, 0.8, -0.8, -0.8], dtype=torch.float64)
    theta_new, xi_new = circle_overdamped.step(theta, xi, zero, H, TAU, 1.0, zero, zero)
    assert_same(theta_new, theta)
    assert_same(xi_new, xi)


def test_sphere_with_two_columns_equals_the_circle() -> None:
    """Rows (theta, xi) on spheres in the plane take the circle's steps (TOL)."""
    case = CLOSED["circle"]
    n = case.q.numel() // 2

    def rows(x: Tensor) -> Tensor:
        return torch.stack([x[:n], x[n:]], dim=1)

    r = torch.hypot(case.q[:n], case.q[n:])
    q, p, r_rows = rows(case.q), rows(case.p), r.view(n, 1)
    grad, noise = rows(case.grad), rows(case.noise)
    for actual, expected in [
        (sphere.step_a(q, p, H, r_rows), case.step_a(case.q, case.p, H)),
        (sphere.step_b(q, p, grad, H, r_rows), case.step_b(case.q, case.p, case.grad, H)),
        (
            sphere.step_o(q, p, H, GAMMA, TAU, r_rows, noise),
            case.step_o(case.q, case.p, H, GAMMA, TAU, case.noise),
        ),
    ]:
        assert_same(actual[0], rows(expected[0]))
        assert_same(actual[1], rows(expected[1]))
    theta, xi = circle_overdamped.step(
        case.q[:n], case.q[n:], case.grad[:n], H, TAU, r, case.noise[:n], case.noise[n:]
    )
    assert_same(sphere.overdamped(q, grad, H, TAU, r_rows, noise), torch.stack([theta, xi], dim=1))


def test_sphere_row_at_rest_stays() -> None:
    """A with p = 0 divides nothing by zero and moves nothing."""
    case = CLOSED["sphere"]
    q, p = case.step_a(case.q, torch.zeros_like(case.p), H)
    assert_same(q, case.q, tol=0.0)
    assert_same(p, torch.zeros_like(p), tol=0.0)


def test_free_oba_without_temperature_is_torch_sgd_with_momentum() -> None:
    """With p_0 = 0 it is torch.optim.SGD, lr = h^2 and momentum = exp(-gamma h) (TOL)."""
    generator = torch.Generator().manual_seed(5)
    theta = normal(generator, 5)
    p = torch.zeros_like(theta)
    weight = torch.nn.Parameter(theta.clone())
    optimizer = torch.optim.SGD([weight], lr=H**2, momentum=math.exp(-GAMMA * H))
    for _ in range(20):
        weight.grad = torch.sin(weight.detach())
        optimizer.step()
        grad = torch.sin(theta)
        theta, p = free.step_o(theta, p, H, GAMMA, 0.0, normal(generator, 5))
        theta, p = free.step_b(theta, p, grad, H)
        theta, p = free.step_a(theta, p, H)
        assert_same(theta, weight.detach())
