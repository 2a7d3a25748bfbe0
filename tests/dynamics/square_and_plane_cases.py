"""The cases of constraints that are planes, squares of free weights, or squares of points on spheres."""

import math

import torch
from torch import Tensor

import colangevin as cl
from colangevin.constraints import Constraint
from tests.dynamics.case import Case, normal
from tests.reference import affine, free, sphere


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
