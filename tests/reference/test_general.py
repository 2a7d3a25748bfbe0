"""general.py against the closed forms.

B, O and the projection are identical. A is identical for orthogonality, where both are RATTLE. For circle and
sphere the closed A is the exact geodesic, and general A equals it up to order h^3.
"""

import itertools
import math

import pytest
import torch
from torch import Tensor

from . import circle_overdamped, free, general, orthogonal_overdamped, sphere
from .cases import CLOSED, GAMMA, ITERATIONS, ORTHOGONAL, TAU, TOL, H, assert_same, normal


@pytest.mark.parametrize("name", CLOSED)
def test_general_projection_b_and_o_equal_the_closed_forms(name: str) -> None:
    """B, O and the projection involve no approximation: equal to TOL."""
    case = CLOSED[name]
    for actual, expected in [
        (general.project(case.g, case.q, case.noise), case.project(case.q, case.noise)),
        (
            general.step_b(case.g, case.q, case.p, case.grad, H),
            case.step_b(case.q, case.p, case.grad, H),
        ),
        (
            general.step_o(case.g, case.q, case.p, H, GAMMA, TAU, case.noise),
            case.step_o(case.q, case.p, H, GAMMA, TAU, case.noise),
        ),
    ]:
        assert_same(actual[0], expected[0])
        assert_same(actual[1], expected[1])


@pytest.mark.parametrize("name", ["circle", "sphere"])
def test_general_a_is_third_order_to_the_geodesic(name: str) -> None:
    """The one-step error of RATTLE falls by 2^3 when h is halved: ratio in (7.5, 8.5)."""
    case = CLOSED[name]
    errors = []
    for h in (0.04, 0.02, 0.01):
        q, p = general.step_a(case.g, case.q, case.p, h)
        q_exact, p_exact = case.step_a(case.q, case.p, h)
        errors.append(torch.stack([(q - q_exact).norm(), (p - p_exact).norm()]))
    for coarse, fine in itertools.pairwise(errors):
        ratio = coarse / fine
        assert ((ratio > 7.5) & (ratio < 8.5)).all(), ratio


def test_rattle_on_a_sphere_turns_by_the_arcsine() -> None:
    """RATTLE moves along the great circle by arcsin(phi), the geodesic by phi = |p| h / r (TOL)."""
    r = 1.3
    q = torch.tensor([r, 0.0, 0.0], dtype=torch.float64)
    p = torch.tensor([0.0, 2.0, 0.0], dtype=torch.float64)
    phi = 2.0 * H / r
    h_geodesic = H * math.asin(phi) / phi
    q_new, p_new = general.step_a(lambda q: (q**2).sum().view(1) - r**2, q, p, H)
    q_exact, p_exact = sphere.step_a(q.view(1, 3), p.view(1, 3), h_geodesic, r)
    assert_same(q_new, q_exact.flatten())
    assert_same(p_new, p_exact.flatten())


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_general_a_equals_the_orthogonal_a(name: str) -> None:
    """Newton and the converged quasi-Newton loop solve the same RATTLE equations (TOL)."""
    case = CLOSED[name]
    q, p = general.step_a(case.g, case.q, case.p, H)
    q_loop, p_loop = case.step_a(case.q, case.p, H)
    assert_same(q, q_loop)
    assert_same(p, p_loop)


def test_general_overdamped_equals_algorithm_1() -> None:
    """Both are Eq. 40 once the loop has converged (TOL)."""
    case = CLOSED["orthogonal-tall"]
    h, tau = 0.05, 0.05
    Q = orthogonal_overdamped.step(
        case.q.view(5, 3), case.grad.view(5, 3), h, tau, case.noise.view(5, 3), ITERATIONS
    )
    q = general.overdamped(case.g, case.q, case.grad, h, tau, case.noise)
    assert case.g(Q.flatten()).abs().max() <= TOL
    assert_same(q, Q.flatten())


def test_general_orthogonal_overdamped_equals_the_circle_step() -> None:
    """Both are Eq. 41 with the circle constraint (TOL)."""
    case = CLOSED["circle"]
    n = case.q.numel() // 2
    r = torch.hypot(case.q[:n], case.q[n:])
    theta, xi = circle_overdamped.step(
        case.q[:n], case.q[n:], case.grad[:n], 0.05, 0.1, r, case.noise[:n], case.noise[n:]
    )
    q = general.overdamped_orthogonal(case.g, case.q, case.grad, 0.05, 0.1, case.noise)
    assert_same(q, torch.cat([theta, xi]))


def test_general_orthogonal_overdamped_equals_the_sphere_step() -> None:
    """Both are Eq. 41 with the sphere constraint (TOL)."""
    case = CLOSED["sphere"]
    q = general.overdamped_orthogonal(case.g, case.q, case.grad, H, 0.1, case.noise)
    q_closed = sphere.overdamped(case.q.view(3, 4), case.grad.view(3, 4), H, 0.1, 1.3, case.noise.view(3, 4))
    assert_same(q, q_closed.flatten())


def test_general_orthogonal_overdamped_is_the_polar_factor() -> None:
    """With orthonormal columns Eq. 41 gives U V^T of Q_bar = U S V^T (TOL)."""
    case = CLOSED["orthogonal-tall"]
    q = general.overdamped_orthogonal(case.g, case.q, case.grad, 0.05, 0.1, case.noise)
    Q_bar = free.overdamped(case.q, case.grad, 0.05, 0.1, case.noise).view(5, 3)
    U, _, Vh = torch.linalg.svd(Q_bar, full_matrices=False)
    assert_same(q, (U @ Vh).flatten())


def test_general_overdamped_reports_a_missing_projection() -> None:
    """The oblique line of Eq. 40 misses the circle after a tangent step > r."""
    q = torch.tensor([1.0, 0.0], dtype=torch.float64)
    grad = torch.tensor([0.0, -1.0], dtype=torch.float64)
    noise = torch.zeros(2, dtype=torch.float64)

    def g(q: Tensor) -> Tensor:
        return (q**2).sum().view(1) - 1

    assert g(general.overdamped(g, q, grad, 0.9, 0.0, noise)).abs().max() <= TOL
    assert g(general.overdamped_orthogonal(g, q, grad, 1.5, 0.0, noise)).abs().max() <= TOL
    with pytest.raises(ArithmeticError, match="oblique projection"):
        general.overdamped(g, q, grad, 1.5, 0.0, noise)


def test_free_letters_are_general_letters_with_no_effective_constraint() -> None:
    """Entries of q that g ignores take the free steps inside general.py (TOL)."""
    generator = torch.Generator().manual_seed(6)
    q = torch.cat([torch.tensor([0.6, 0.8], dtype=torch.float64), normal(generator, 3)])
    grad, noise = normal(generator, 5), normal(generator, 5)

    def g(q: Tensor) -> Tensor:
        return (q[:2] ** 2).sum().view(1) - 1

    _, p = general.project(g, q, normal(generator, 5))
    for actual, expected in [
        (general.step_a(g, q, p, H), free.step_a(q, p, H)),
        (general.step_b(g, q, p, grad, H), free.step_b(q, p, grad, H)),
        (
            general.step_o(g, q, p, H, GAMMA, TAU, noise),
            free.step_o(q, p, H, GAMMA, TAU, noise),
        ),
    ]:
        assert_same(actual[0][2:], expected[0][2:])
        assert_same(actual[1][2:], expected[1][2:])
    expected_q = free.overdamped(q, grad, 0.01, TAU, noise)
    assert_same(general.overdamped(g, q, grad, 0.01, TAU, noise)[2:], expected_q[2:])
    assert_same(general.overdamped_orthogonal(g, q, grad, 0.01, TAU, noise)[2:], expected_q[2:])
