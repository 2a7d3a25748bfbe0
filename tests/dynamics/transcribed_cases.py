"""The constraints beside the transcriptions of the paper, one case each."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

import colangevin as cl
from colangevin.constraints.slices import Over
from tests.dynamics.case import Case, Variables, normal
from tests.dynamics.square_and_plane_cases import affine_case, simplex_case, squares_case, symmetric_case
from tests.reference import (
    circle_overdamped,
    circle_underdamped,
    free,
    general,
    orthogonal_overdamped,
    orthogonal_underdamped,
    sphere,
)

ITERATIONS = 40  # of the paper's fixed loop


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


def sphere_case(
    shape: tuple[int, ...],
    r: float | Tensor,
    slack: bool,
    seed: int,
    over: Over = "rows",
    transposed: int = 0,
) -> Case:
    """Slices along dimension 0 or 1 of a weight, or all of it, as rows. Transposed, 0 and 1 change places."""
    dim = int(over == "columns") ^ transposed
    rows = 1 if over == "matrix" else shape[dim]
    n = math.prod(shape) // rows
    moved = (shape[dim], *shape[:dim], *shape[dim + 1 :])
    column = r.unsqueeze(1) if isinstance(r, Tensor) else r

    def cut(w: Tensor) -> Tensor:
        return w.movedim(dim, 0).reshape(rows, n)

    def joined(q: Tensor) -> Tensor:
        return q.reshape(moved).movedim(0, dim)

    weight = normal(torch.Generator().manual_seed(seed), rows, n)
    weight = column * weight / weight.norm(dim=1, keepdim=True) * (0.8 if slack else 1.0)

    def start(w: Tensor) -> Variables:
        q = cut(w)
        if slack:
            q = torch.cat((q, torch.sqrt(column**2 - q.square().sum(1, keepdim=True))), dim=1)
        return q, torch.zeros_like(q)

    def covector(grad: Tensor) -> Tensor:
        grad = cut(grad)
        return torch.cat((grad, grad.new_zeros(rows, 1)), dim=1) if slack else grad

    return Case(
        constraint=cl.Sphere(r, slack=slack, over=over, transposed=transposed),
        weight=joined(weight).contiguous(),
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


def orthogonal_case(shape: tuple[int, ...], seed: int, c: float = 1.0) -> Case:
    """W = c Q, with p the momentum of W: the paper's method on Q has the momentum p / c."""
    rows, columns = shape[0], math.prod(shape[1:])
    tall = (max(rows, columns), min(rows, columns))
    Q, _ = torch.linalg.qr(normal(torch.Generator().manual_seed(seed), *tall))

    def natural(matrix: Tensor) -> Tensor:
        """From tall to the weight's own orientation, or back."""
        return matrix if rows >= columns else matrix.T

    def configured(matrix: Tensor) -> Tensor:
        """As the library has it: scaled ones come in blocks, here one."""
        return natural(matrix) if c == 1 else natural(matrix).unsqueeze(0)

    def covector(w: Tensor) -> Tensor:
        return natural(w.reshape(rows, columns))

    def step_a(Q: Tensor, p: Tensor, h: float) -> Variables:
        Q, P = orthogonal_underdamped.step_a(Q, p / c, h, ITERATIONS)
        return Q, c * P

    return Case(
        constraint=cl.Orthogonal(c),
        weight=c * natural(Q).reshape(shape),
        noise_shape=tall,
        start=lambda w: (covector(w) / c, torch.zeros(tall, dtype=torch.float64)),
        shove=lambda x, noise: orthogonal_underdamped.project(x[0], noise),
        step_a=lambda x, h: step_a(*x, h),
        step_b=lambda x, grad, h: orthogonal_underdamped.step_b(*x, covector(grad), h),
        step_o=lambda x, h, gamma, tau, noise: orthogonal_underdamped.step_o(*x, h, gamma, tau, noise),
        overdamped=lambda x, grad, h, tau, noise: (
            orthogonal_overdamped.step(x[0], covector(grad) / c, h, tau / c**2, noise, ITERATIONS),
            x[1],
        ),
        position=lambda x: configured(x[0]),
        momentum=lambda x: configured(x[1]),
        kick_noise=lambda x, noise: configured(noise),
        euler_noise=configured,
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
    "sphere-columns": sphere_case((4, 2, 3), 1.3, slack=True, seed=13, over="columns"),
    "sphere-columns-radii": sphere_case((3, 4), RADII[::3], slack=False, seed=14, over="columns"),
    "sphere-matrix": sphere_case((3, 4), 1.3, slack=False, seed=15, over="matrix"),
    "sphere-matrix-slack": sphere_case((2, 3, 2), 1.3, slack=True, seed=16, over="matrix"),
    "sphere-transposed": sphere_case((4, 2, 3), 1.3, slack=True, seed=17, transposed=1),
    "free": free_case((5,), seed=6),
    "orthogonal-tall": orthogonal_case((6, 3), seed=7),
    "orthogonal-square": orthogonal_case((4, 4), seed=8),
    "orthogonal-wide": orthogonal_case((3, 7), seed=9),
    "orthogonal-conv": orthogonal_case((3, 2, 2, 2), seed=10),
    "orthogonal-column": orthogonal_case((4, 1), seed=11),
    "orthogonal-scaled": orthogonal_case((6, 3), seed=18, c=0.7),
    "orthogonal-scaled-conv": orthogonal_case((3, 2, 2, 2), seed=19, c=1.4),
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
