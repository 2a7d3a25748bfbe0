"""The paper's methods, one case a constraint, in the variables of the transcriptions.

A case holds the transcription's own variables as a tuple ``x``. It says how ``x`` maps to the library's
(q, p) and how the paper's noise maps to the library's.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import colangevin as cl
from colangevin.constraints import Constraint
from tests.reference import (
    affine,
    circle_overdamped,
    circle_underdamped,
    free,
    general,
    orthogonal_overdamped,
    orthogonal_underdamped,
    sphere,
)

ITERATIONS = 40  # of the paper's fixed loop

Variables = tuple[Tensor, ...]


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@dataclass(frozen=True)
class Case:
    """A constraint, a weight, and the paper's method for it in the reference's variables x.

    ``position``, ``momentum`` and the noise maps return one copy, without the library's stack dimension.
    """

    constraint: Constraint
    weight: Tensor
    noise_shape: tuple[int, ...]
    start: Callable[[Tensor], Variables]  # a weight at rest, slack positive
    shove: Callable[[Variables, Tensor], Variables]  # a momentum from noise
    step_a: Callable[[Variables, float], Variables]
    step_b: Callable[[Variables, Tensor, float], Variables]
    step_o: Callable[[Variables, float, float, float, Tensor], Variables]
    overdamped: Callable[[Variables, Tensor, float, float, Tensor], Variables]
    position: Callable[[Variables], Tensor]
    momentum: Callable[[Variables], Tensor]
    kick_noise: Callable[[Variables, Tensor], Tensor]  # the paper's noise of O in the library's coordinates
    euler_noise: Callable[[Tensor], Tensor]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.weight.shape)

    @property
    def bound(self) -> Constraint:
        return self.constraint.on(self.shape)


def circle_case(shape: tuple[int, ...], r: float | Tensor, seed: int) -> Case:
    """theta = r sin beta, xi = r cos beta, p_c = omega xi, p_xi = -omega theta; noise (R_c, R_xi) last."""
    weight = (2 * torch.rand(shape, generator=torch.Generator().manual_seed(seed)).double() - 1) * 0.9 * r

    def start(w: Tensor) -> Variables:
        return w, torch.sqrt(r**2 - w**2), torch.zeros_like(w), torch.zeros_like(w)

    return Case(
        constraint=cl.Circle(r),
        weight=weight,
        noise_shape=(*shape, 2),
        start=start,
        shove=lambda x, noise: circle_underdamped.project(*x[:2], noise[..., 0], noise[..., 1], r),
        step_a=lambda x, h: circle_underdamped.step_a(*x, h, r),
        step_b=lambda x, grad, h: circle_underdamped.step_b(*x, grad, h, r),
        step_o=lambda x, h, gamma, tau, noise: circle_underdamped.step_o(
            *x, h, gamma, tau, r, noise[..., 0], noise[..., 1]
        ),
        overdamped=lambda x, grad, h, tau, noise: (
            *circle_overdamped.step(*x[:2], grad, h, tau, r, noise[..., 0], noise[..., 1]),
            *x[2:],
        ),
        position=lambda x: torch.atan2(x[0], x[1]),
        momentum=lambda x: (x[1] * x[2] - x[0] * x[3]) / r**2,
        kick_noise=lambda x, noise: (x[1] * noise[..., 0] - x[0] * noise[..., 1]) / r,
        euler_noise=lambda noise: noise,
    )


def sphere_case(shape: tuple[int, ...], r: float | Tensor, slack: bool, seed: int) -> Case:
    rows, n = shape[0], math.prod(shape[1:])
    column = r.unsqueeze(1) if isinstance(r, Tensor) else r
    weight = normal(torch.Generator().manual_seed(seed), rows, n)
    weight = column * weight / weight.norm(dim=1, keepdim=True) * (0.8 if slack else 1.0)

    def start(w: Tensor) -> Variables:
        q = w.view(rows, n)
        if slack:
            q = torch.cat((q, torch.sqrt(column**2 - q.square().sum(1, keepdim=True))), dim=1)
        return q, torch.zeros_like(q)

    def covector(grad: Tensor) -> Tensor:
        grad = grad.view(rows, n)
        return torch.cat((grad, grad.new_zeros(rows, 1)), dim=1) if slack else grad

    return Case(
        constraint=cl.Sphere(r, slack=slack),
        weight=weight.view(shape),
        noise_shape=(rows, n + slack),
        start=start,
        shove=lambda x, noise: sphere.project(x[0], noise, column),
        step_a=lambda x, h: sphere.step_a(*x, h, column),
        step_b=lambda x, grad, h: sphere.step_b(*x, covector(grad), h, column),
        step_o=lambda x, h, gamma, tau, noise: sphere.step_o(*x, h, gamma, tau, column, noise),
        overdamped=lambda x, grad, h, tau, noise: (
            sphere.overdamped(x[0], covector(grad), h, tau, column, noise),
            x[1],
        ),
        position=lambda x: x[0],
        momentum=lambda x: x[1],
        kick_noise=lambda x, noise: noise,
        euler_noise=lambda noise: noise,
    )


def free_case(shape: tuple[int, ...], seed: int) -> Case:
    return Case(
        constraint=cl.Free(),
        weight=normal(torch.Generator().manual_seed(seed), *shape),
        noise_shape=shape,
        start=lambda w: (w, torch.zeros_like(w)),
        shove=lambda x, noise: (x[0], noise),
        step_a=lambda x, h: free.step_a(*x, h),
        step_b=lambda x, grad, h: free.step_b(*x, grad, h),
        step_o=lambda x, h, gamma, tau, noise: free.step_o(*x, h, gamma, tau, noise),
        overdamped=lambda x, grad, h, tau, noise: (free.overdamped(x[0], grad, h, tau, noise), x[1]),
        position=lambda x: x[0],
        momentum=lambda x: x[1],
        kick_noise=lambda x, noise: noise,
        euler_noise=lambda noise: noise,
    )


def affine_case(A: Tensor, b: Tensor, constraint: Constraint, shape: tuple[int, ...], seed: int) -> Case:
    """Rows of the weight or, where the constraint is over columns, of its transpose."""
    count, n = shape[0], math.prod(shape[1:])

    def turned(w: Tensor) -> Tensor:
        """The lines that are held as rows; a second time, the matrix again."""
        return w.T if constraint.over == "columns" else w

    def covector(grad: Tensor) -> Tensor:
        return turned(grad.reshape(count, n))

    start = covector(normal(torch.Generator().manual_seed(seed), *shape))
    weight = start - (start @ A.T - b) @ torch.linalg.inv(A @ A.T) @ A
    return Case(
        constraint=constraint,
        weight=turned(weight).reshape(shape),
        noise_shape=(count, n),
        start=lambda w: (covector(w), torch.zeros_like(covector(w))),
        shove=lambda x, noise: affine.project(x[0], turned(noise), A),
        step_a=lambda x, h: affine.step_a(*x, h),
        step_b=lambda x, grad, h: affine.step_b(*x, covector(grad), h, A),
        step_o=lambda x, h, gamma, tau, noise: affine.step_o(*x, h, gamma, tau, A, turned(noise)),
        overdamped=lambda x, grad, h, tau, noise: (
            affine.overdamped(x[0], covector(grad), h, tau, A, b, turned(noise)),
            x[1],
        ),
        position=lambda x: turned(x[0]),
        momentum=lambda x: turned(x[1]),
        kick_noise=lambda x, noise: noise,
        euler_noise=lambda noise: noise,
    )


def symmetric_case(n: int, seed: int) -> Case:
    """As the affine set of the flattened matrix with w_ij - w_ji = 0 for all i < j."""
    equations = []
    for i in range(n):
        for j in range(i):
            equation = torch.zeros(n, n, dtype=torch.float64)
            equation[i, j], equation[j, i] = 1, -1
            equations.append(equation.flatten())
    A = torch.stack(equations)
    weight = normal(torch.Generator().manual_seed(seed), n, n)

    def flat(w: Tensor) -> Tensor:
        return w.reshape(1, n * n)

    return Case(
        constraint=cl.Symmetric(),
        weight=weight + weight.T,
        noise_shape=(n, n),
        start=lambda w: (flat(w), torch.zeros_like(flat(w))),
        shove=lambda x, noise: affine.project(x[0], flat(noise), A),
        step_a=lambda x, h: affine.step_a(*x, h),
        step_b=lambda x, grad, h: affine.step_b(*x, flat(grad), h, A),
        step_o=lambda x, h, gamma, tau, noise: affine.step_o(*x, h, gamma, tau, A, flat(noise)),
        overdamped=lambda x, grad, h, tau, noise: (
            affine.overdamped(x[0], flat(grad), h, tau, A, torch.zeros(len(A)).double(), flat(noise)),
            x[1],
        ),
        position=lambda x: x[0].view(n, n),
        momentum=lambda x: x[1].view(n, n),
        kick_noise=lambda x, noise: noise,
        euler_noise=lambda noise: noise,
    )


def squares_case(shape: tuple[int, ...], seed: int) -> Case:
    """A free x with the loss L(x^2), whose gradient is 2 x G."""
    weight = normal(torch.Generator().manual_seed(seed), *shape).square()
    return Case(
        constraint=cl.NonNegative(),
        weight=weight,
        noise_shape=shape,
        start=lambda w: (w.sqrt(), torch.zeros_like(w)),
        shove=lambda x, noise: (x[0], noise),
        step_a=lambda x, h: free.step_a(*x, h),
        step_b=lambda x, grad, h: free.step_b(*x, 2 * x[0] * grad, h),
        step_o=lambda x, h, gamma, tau, noise: free.step_o(*x, h, gamma, tau, noise),
        overdamped=lambda x, grad, h, tau, noise: (
            free.overdamped(x[0], 2 * x[0] * grad, h, tau, noise),
            x[1],
        ),
        position=lambda x: x[0],
        momentum=lambda x: x[1],
        kick_noise=lambda x, noise: noise,
        euler_noise=lambda noise: noise,
    )


def simplex_case(shape: tuple[int, int], over: str, seed: int) -> Case:
    """A point x of the unit sphere with the loss L(x^2), whose gradient is 2 x G."""
    weight = torch.softmax(
        normal(torch.Generator().manual_seed(seed), *shape), dim=1 if over == "rows" else 0
    )

    def turned(w: Tensor) -> Tensor:
        return w.T if over == "columns" else w

    return Case(
        constraint=cl.Simplex(over=over),
        weight=weight,
        noise_shape=shape,
        start=lambda w: (turned(w).sqrt(), torch.zeros_like(turned(w))),
        shove=lambda x, noise: sphere.project(x[0], turned(noise), 1.0),
        step_a=lambda x, h: sphere.step_a(*x, h, 1.0),
        step_b=lambda x, grad, h: sphere.step_b(*x, 2 * x[0] * turned(grad), h, 1.0),
        step_o=lambda x, h, gamma, tau, noise: sphere.step_o(*x, h, gamma, tau, 1.0, turned(noise)),
        overdamped=lambda x, grad, h, tau, noise: (
            sphere.overdamped(x[0], 2 * x[0] * turned(grad), h, tau, 1.0, turned(noise)),
            x[1],
        ),
        position=lambda x: turned(x[0]),
        momentum=lambda x: turned(x[1]),
        kick_noise=lambda x, noise: noise,
        euler_noise=lambda noise: noise,
    )


def orthogonal_case(shape: tuple[int, ...], seed: int) -> Case:
    rows, columns = shape[0], math.prod(shape[1:])
    tall = (max(rows, columns), min(rows, columns))
    Q, _ = torch.linalg.qr(normal(torch.Generator().manual_seed(seed), *tall))

    def natural(matrix: Tensor) -> Tensor:
        """From tall to the weight's own orientation, or back."""
        return matrix if rows >= columns else matrix.T

    def covector(w: Tensor) -> Tensor:
        return natural(w.reshape(rows, columns))

    return Case(
        constraint=cl.Orthogonal(),
        weight=natural(Q).reshape(shape),
        noise_shape=tall,
        start=lambda w: (covector(w), torch.zeros(tall, dtype=torch.float64)),
        shove=lambda x, noise: orthogonal_underdamped.project(x[0], noise),
        step_a=lambda x, h: orthogonal_underdamped.step_a(*x, h, ITERATIONS),
        step_b=lambda x, grad, h: orthogonal_underdamped.step_b(*x, covector(grad), h),
        step_o=lambda x, h, gamma, tau, noise: orthogonal_underdamped.step_o(*x, h, gamma, tau, noise),
        overdamped=lambda x, grad, h, tau, noise: (
            orthogonal_overdamped.step(x[0], covector(grad), h, tau, noise, ITERATIONS),
            x[1],
        ),
        position=lambda x: natural(x[0]),
        momentum=lambda x: natural(x[1]),
        kick_noise=lambda x, noise: natural(noise),
        euler_noise=natural,
    )


def implicit_case(c: Callable[[Tensor], Tensor], inequality: bool, weight: Tensor) -> Case:
    """Any c(w) = 0, or c(w) <= 0 by c(w) + xi^2 = 0 with q = (w, xi)."""
    shape, n = weight.shape, weight.numel()
    slacks = c(weight).numel() if inequality else 0

    def g(q: Tensor) -> Tensor:
        value = c(q[:n].view(shape)).reshape(-1)
        return value + q[n:] ** 2 if inequality else value

    def start(w: Tensor) -> Variables:
        q = w.flatten()
        if inequality:
            q = torch.cat((q, torch.sqrt(-c(w).reshape(-1))))
        return q, torch.zeros_like(q)

    def covector(grad: Tensor) -> Tensor:
        return torch.cat((grad.flatten(), grad.new_zeros(slacks)))

    return Case(
        constraint=cl.Implicit(c, inequality),
        weight=weight,
        noise_shape=(n + slacks,),
        start=start,
        shove=lambda x, noise: general.project(g, x[0], noise),
        step_a=lambda x, h: general.step_a(g, *x, h),
        step_b=lambda x, grad, h: general.step_b(g, *x, covector(grad), h),
        step_o=lambda x, h, gamma, tau, noise: general.step_o(g, *x, h, gamma, tau, noise),
        overdamped=lambda x, grad, h, tau, noise: (
            general.overdamped(g, x[0], covector(grad), h, tau, noise),
            x[1],
        ),
        position=lambda x: x[0],
        momentum=lambda x: x[1],
        kick_noise=lambda x, noise: noise,
        euler_noise=lambda noise: noise,
    )


def ellipsoid_and_plane(w: Tensor) -> Tensor:
    axes = torch.tensor([1.0, 2.0, 0.5, 1.5, 1.0, 3.0], dtype=w.dtype).view(w.shape)
    return torch.stack(((axes * w.square()).sum() - 4, w.sum() - 0.3))


def row_energy_and_box(w: Tensor) -> Tensor:
    """Two rows with |row|^2 <= 2, and w_00 + w_11 <= 1.5."""
    return torch.cat((w.square().sum(1) - 2, (w[0, 0] + w[1, 1] - 1.5).reshape(1)))


def on_the_ellipsoid() -> Tensor:
    start = normal(torch.Generator().manual_seed(8), 2, 3)
    return cl.Implicit(ellipsoid_and_plane).init_(start)


RADII = torch.linspace(0.5, 2.0, 12, dtype=torch.float64)

EQUATIONS = torch.tensor([[1.0, 1.0, 2.0, 0.0], [0.0, 1.0, -1.0, 3.0]], dtype=torch.float64)
VALUES = torch.tensor([1.0, -0.5], dtype=torch.float64)
ONES, ONE = torch.ones(1, 4, dtype=torch.float64), torch.ones(1, dtype=torch.float64)

CASES = {
    "circle": circle_case((3, 4), 0.7, seed=1),
    "circle-radii": circle_case((3, 4), RADII.view(3, 4), seed=2),
    "sphere": sphere_case((3, 4), 1.3, slack=False, seed=3),
    "sphere-slack": sphere_case((3, 4), 1.3, slack=True, seed=4),
    "sphere-conv-radii": sphere_case((4, 2, 3, 3), RADII[::3], slack=True, seed=5),
    "free": free_case((5,), seed=6),
    "orthogonal-tall": orthogonal_case((6, 3), seed=7),
    "orthogonal-square": orthogonal_case((4, 4), seed=8),
    "orthogonal-wide": orthogonal_case((3, 7), seed=9),
    "orthogonal-conv": orthogonal_case((3, 2, 2, 2), seed=10),
    "orthogonal-column": orthogonal_case((4, 1), seed=11),
    "affine": affine_case(EQUATIONS, VALUES, cl.Affine(EQUATIONS, VALUES), (3, 2, 2), seed=12),
    "affine-columns": affine_case(
        EQUATIONS, VALUES, cl.Affine(EQUATIONS, VALUES, over="columns"), (4, 5), seed=13
    ),
    "affine-sum": affine_case(ONES, ONE, cl.Affine.sum(1.0), (3, 4), seed=14),
    "affine-mean": affine_case(ONES, 0.75 * 4 * ONE, cl.Affine.mean(0.75, over="columns"), (4, 3), seed=15),
    "symmetric": symmetric_case(4, seed=16),
    "nonnegative": squares_case((3, 4), seed=17),
    "simplex": simplex_case((3, 4), "rows", seed=18),
    "simplex-columns": simplex_case((3, 4), "columns", seed=19),
    "implicit": implicit_case(ellipsoid_and_plane, False, on_the_ellipsoid()),
    "implicit-slack": implicit_case(row_energy_and_box, True, torch.full((2, 3), 0.4, dtype=torch.float64)),
}
# Newton on general constraints takes most of the time, so fewer of the tests run them.
CLOSED_FORMS = [name for name in CASES if not name.startswith("implicit")]
