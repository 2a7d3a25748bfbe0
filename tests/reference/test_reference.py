r"""The transcriptions checked against one another and against what must always hold.

Every case below packs a closed-form transcription into flat vectors q, p, so that it meets
general.py on equal terms: g(q) = 0 and J(q) p = 0 after every letter, B and O identical, A
identical (orthogonality, both RATTLE) or equal up to order h^3 (circle and sphere, where the closed
form is the exact geodesic).
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from . import (
    circle_overdamped,
    circle_underdamped,
    free,
    general,
    orthogonal_overdamped,
    orthogonal_underdamped,
    sphere,
)

TOL = 1e-12  # float64, vectors of order one, at most a few hundred operations
H = 0.1
GAMMA = 0.7
TAU = 0.3
ITERATIONS = 60  # the quasi-Newton loop at least halves the error each time at these sizes

Letter = Callable[..., tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Case:
    """A point (q, p) of the cotangent bundle of g = 0, a gradient, noise, and the closed forms."""

    g: Callable[[Tensor], Tensor]
    q: Tensor
    p: Tensor
    grad: Tensor
    noise: Tensor
    project: Letter
    step_a: Letter
    step_b: Letter
    step_o: Letter


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    """Return a float64 standard normal tensor."""
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def circle_case() -> Case:
    """Return six weights with six radii; q is theta and xi concatenated."""
    generator = torch.Generator().manual_seed(1)
    n = 6
    r = torch.linspace(0.5, 2.0, n, dtype=torch.float64)
    alpha = normal(generator, n) * math.pi
    theta, xi = r * torch.cos(alpha), r * torch.sin(alpha)
    _, _, p_c, p_xi = circle_underdamped.project(theta, xi, normal(generator, n), normal(generator, n), r)

    def pack(theta: Tensor, xi: Tensor, p_c: Tensor, p_xi: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat([theta, xi]), torch.cat([p_c, p_xi])

    def unpack(q: Tensor, p: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return q[:n], q[n:], p[:n], p[n:]

    return Case(
        g=lambda q: q[:n] ** 2 + q[n:] ** 2 - r**2,
        q=torch.cat([theta, xi]),
        p=torch.cat([p_c, p_xi]),
        grad=torch.cat([normal(generator, n), torch.zeros(n, dtype=torch.float64)]),
        noise=normal(generator, 2 * n),
        project=lambda q, p: pack(*circle_underdamped.project(*unpack(q, p), r)),
        step_a=lambda q, p, h: pack(*circle_underdamped.step_a(*unpack(q, p), h, r)),
        step_b=lambda q, p, grad, h: pack(*circle_underdamped.step_b(*unpack(q, p), grad[:n], h, r)),
        step_o=lambda q, p, h, gamma, tau, noise: pack(
            *circle_underdamped.step_o(*unpack(q, p), h, gamma, tau, r, noise[:n], noise[n:])
        ),
    )


def sphere_case() -> Case:
    """Return three rows of four entries with norm 1.3."""
    generator = torch.Generator().manual_seed(2)
    shape = (3, 4)
    r = 1.3
    q = normal(generator, *shape)
    q = r * q / q.norm(dim=1, keepdim=True)
    _, p = sphere.project(q, normal(generator, *shape), r)

    def flat(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return pair[0].flatten(), pair[1].flatten()

    return Case(
        g=lambda q: (q.view(shape) ** 2).sum(dim=1) - r**2,
        q=q.flatten(),
        p=p.flatten(),
        grad=normal(generator, q.numel()),
        noise=normal(generator, q.numel()),
        project=lambda q, p: flat(sphere.project(q.view(shape), p.view(shape), r)),
        step_a=lambda q, p, h: flat(sphere.step_a(q.view(shape), p.view(shape), h, r)),
        step_b=lambda q, p, grad, h: flat(
            sphere.step_b(q.view(shape), p.view(shape), grad.view(shape), h, r)
        ),
        step_o=lambda q, p, h, gamma, tau, noise: flat(
            sphere.step_o(q.view(shape), p.view(shape), h, gamma, tau, r, noise.view(shape))
        ),
    )


def orthogonal_case(rows: int, columns: int) -> Case:
    """Return a matrix with orthonormal columns; g is the upper triangle of Q^T Q - I."""
    generator = torch.Generator().manual_seed(3)
    shape = (rows, columns)
    upper = torch.triu_indices(columns, columns)
    Q, _ = torch.linalg.qr(normal(generator, *shape))
    _, P = orthogonal_underdamped.project(Q, normal(generator, *shape))

    def g(q: Tensor) -> Tensor:
        gram = q.view(shape).T @ q.view(shape)
        return (gram - torch.eye(columns, dtype=torch.float64))[upper[0], upper[1]]

    def flat(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return pair[0].flatten(), pair[1].flatten()

    return Case(
        g=g,
        q=Q.flatten(),
        p=P.flatten(),
        grad=normal(generator, Q.numel()),
        noise=normal(generator, Q.numel()),
        project=lambda q, p: flat(orthogonal_underdamped.project(q.view(shape), p.view(shape))),
        step_a=lambda q, p, h: flat(
            orthogonal_underdamped.step_a(q.view(shape), p.view(shape), h, ITERATIONS)
        ),
        step_b=lambda q, p, grad, h: flat(
            orthogonal_underdamped.step_b(q.view(shape), p.view(shape), grad.view(shape), h)
        ),
        step_o=lambda q, p, h, gamma, tau, noise: flat(
            orthogonal_underdamped.step_o(q.view(shape), p.view(shape), h, gamma, tau, noise.view(shape))
        ),
    )


def general_case(case: Case) -> Case:
    """Return the same point with the letters of general.py in place of the closed forms."""
    return Case(
        g=case.g,
        q=case.q,
        p=case.p,
        grad=case.grad,
        noise=case.noise,
        project=lambda q, p: general.project(case.g, q, p),
        step_a=lambda q, p, h: general.step_a(case.g, q, p, h),
        step_b=lambda q, p, grad, h: general.step_b(case.g, q, p, grad, h),
        step_o=lambda q, p, h, gamma, tau, noise: general.step_o(case.g, q, p, h, gamma, tau, noise),
    )


CLOSED = {
    "circle": circle_case(),
    "sphere": sphere_case(),
    "orthogonal-tall": orthogonal_case(5, 3),
    "orthogonal-square": orthogonal_case(3, 3),
    "orthogonal-column": orthogonal_case(4, 1),
}
ORTHOGONAL = [name for name in CLOSED if name.startswith("orthogonal")]
ALL = CLOSED | {f"general-{name}": general_case(case) for name, case in CLOSED.items()}


def assert_same(actual: Tensor, expected: Tensor, tol: float = TOL) -> None:
    """Assert that two tensors agree entry by entry to an absolute tolerance."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=tol)


def assert_on_cotangent_bundle(case: Case, q: Tensor, p: Tensor) -> None:
    """Assert g(q) = 0 and J(q) p = 0 to TOL."""
    assert case.g(q).abs().max() <= TOL
    assert (jacobian(case.g, q) @ p).abs().max() <= TOL


# What every letter must satisfy, closed form and general.


@pytest.mark.parametrize("name", ALL)
def test_every_letter_keeps_the_constraint_and_the_cotangency(name: str) -> None:
    """A run of letters stays on the cotangent bundle after each of them (TOL)."""
    case = ALL[name]
    q, p = case.q, case.p
    assert_on_cotangent_bundle(case, q, p)
    for _ in range(3):
        q, p = case.step_o(q, p, H, GAMMA, TAU, case.noise)
        assert_on_cotangent_bundle(case, q, p)
        q, p = case.step_b(q, p, case.grad, H)
        assert_on_cotangent_bundle(case, q, p)
        q, p = case.step_a(q, p, H)
        assert_on_cotangent_bundle(case, q, p)


@pytest.mark.parametrize("name", ALL)
def test_projection_is_idempotent_and_orthogonal(name: str) -> None:
    """Pi Pi x = Pi x, and what Pi removes is orthogonal to what it keeps (TOL)."""
    case = ALL[name]
    _, once = case.project(case.q, case.noise)
    _, twice = case.project(case.q, once)
    assert_on_cotangent_bundle(case, case.q, once)
    assert_same(twice, once)
    assert abs(torch.dot(case.noise - once, once)) <= TOL
    assert torch.dot(case.noise - once, case.noise) > 0.1


@pytest.mark.parametrize("name", ALL)
def test_o_without_temperature_is_pure_decay(name: str) -> None:
    """At tau = 0 the O step multiplies all of p, slack momentum included, by exp(-gamma h)."""
    case = ALL[name]
    q, p = case.step_o(case.q, case.p, H, GAMMA, 0.0, case.noise)
    assert_same(q, case.q)
    assert_same(p, math.exp(-GAMMA * H) * case.p)


@pytest.mark.parametrize("name", ALL)
def test_a_is_reversible(name: str) -> None:
    """A, p -> -p, A, p -> -p is the identity (TOL)."""
    case = ALL[name]
    q, p = case.step_a(case.q, case.p, H)
    assert (q - case.q).abs().max() > 0.01
    q, p = case.step_a(q, -p, H)
    assert_same(q, case.q)
    assert_same(-p, case.p)


# general.py against the closed forms.


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


# The circle.


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


# Free parameters.


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


# Why the orthogonal loop needs a fallback.


def orthogonality_error(Q: Tensor) -> float:
    """Return the largest entry of |Q^T Q - I|."""
    return (Q.T @ Q - torch.eye(Q.shape[1], dtype=Q.dtype)).abs().max().item()


def tangent_step(sigma: float, iterations: int) -> Tensor:
    """Return what Algorithm 1 makes of a force -P, P tangent, h ||P||_2 = sigma, no noise."""
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
