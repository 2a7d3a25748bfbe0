"""Points of every manifold, with the transcribed letters as functions of flat vectors q, p.

Flat vectors let a closed form meet general.py on equal terms: both take and return the same q and p.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from . import circle_underdamped, general, orthogonal_underdamped, sphere

TOL = 1e-12  # float64, vectors of order one, at most a few hundred operations
H = 0.1
GAMMA = 0.7
TAU = 0.3
ITERATIONS = 60  # at these sizes an iteration of the quasi-Newton loop at least halves the error

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
