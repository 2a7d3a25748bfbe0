r"""The law that a discrete step samples, computed without random numbers.

A step that takes an angle, a velocity and a normal, :math:`(\varphi, v, R) \mapsto (\varphi', v')`, has the
transition operator :math:`Pf(\varphi, v) = E_R f(\varphi', v')`. In the orthonormal basis of Fourier modes
times Hermite polynomials (reference law: uniform angle, normal velocity) its matrix

.. math:: P_{ij} = \langle b_i, P b_j \rangle

comes from the trapezoidal rule in the angle and Gauss-Hermite nodes in v and R, at which *the library's own
step* is evaluated. The density :math:`\pi = \sum_i c_i b_i` of the sampled law solves :math:`c^T P = c^T`.
All functions are analytic, so a dozen modes give averages to about nine digits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import colangevin as cl
from colangevin.constraints import Manifold
from colangevin.dynamics.overdamped import Overdamped
from colangevin.dynamics.rates import langevin_rates
from colangevin.dynamics.splitting import parse
from colangevin.dynamics.underdamped import Underdamped

__all__ = ["Chart", "circle", "overdamped_mean", "rotations", "sphere_overdamped_mean", "underdamped_mean"]

MODES = 12  # Fourier modes 0..12, sines and cosines
POLYNOMIALS = 12  # Hermite polynomials 0..11
ANGLES = 40  # resolves products of two modes and the step's own bending of them
NODES = 20  # of Gauss and Hermite, exact to degree 39


@dataclass(frozen=True)
class Chart:
    """A one-dimensional manifold of the library in terms of an angle, and a potential on it."""

    manifold: Manifold
    tau: float
    point: Callable[[Tensor], Tensor]
    #: p of a speed v (along the manifold, so that v is normal with variance tau)
    momentum: Callable[[Tensor, Tensor], Tensor]
    #: noise for letter O whose component along the manifold is x
    white: Callable[[Tensor, Tensor], Tensor]
    #: noise for the overdamped step: x along the manifold, y away from it
    white_euler: Callable[[Tensor, Tensor, Tensor], Tensor]
    angle: Callable[[Tensor], Tensor]
    speed: Callable[[Tensor, Tensor], Tensor]
    gradient: Callable[[Tensor], Tensor]
    observe: Callable[[Tensor], Tensor]


def circle(r: float, a: float, tau: float) -> Chart:
    """Circle(r) with V = a theta, where theta = r sin(angle); observes theta / r."""

    def white_euler(angle: Tensor, x: Tensor, y: Tensor) -> Tensor:
        s, c = angle.sin(), angle.cos()
        return torch.stack((c * x + s * y, -s * x + c * y), dim=-1)

    return Chart(
        manifold=cl.Circle(r).on(()),
        tau=tau,
        point=lambda angle: angle,
        momentum=lambda angle, v: v / r,
        white=lambda angle, x: x,
        white_euler=white_euler,
        angle=lambda q: q,
        speed=lambda q, p: p * r,
        gradient=lambda angle: torch.full_like(angle, a),
        observe=torch.sin,
    )


def rotations(k: float, tau: float) -> Chart:
    """Orthogonal() on 2 x 2 with V = -(tau k/2) tr Q: log-density k cos(angle); observes the cosine."""

    def matrix(angle: Tensor) -> Tensor:
        c, s = angle.cos(), angle.sin()
        return torch.stack((c, -s, s, c), dim=-1).reshape(-1, 2, 2)

    def angle_of(Q: Tensor) -> Tensor:
        return torch.atan2(Q[:, 1, 0], Q[:, 0, 0])

    def along(angle: Tensor, v: Tensor) -> Tensor:
        tangent = matrix(angle + math.pi / 2) / math.sqrt(2)
        return v.view(-1, 1, 1) * tangent

    return Chart(
        manifold=cl.Orthogonal().on((2, 2)),
        tau=tau,
        point=matrix,
        momentum=along,
        white=along,
        white_euler=lambda angle, x, y: along(angle, x) + along(angle - math.pi / 2, y),
        angle=angle_of,
        speed=lambda Q, P: (P * along(angle_of(Q), torch.ones(len(Q), dtype=Q.dtype))).sum((1, 2)),
        gradient=lambda angle: torch.eye(2, dtype=angle.dtype).expand(len(angle), 2, 2) * (-0.5 * k * tau),
        observe=torch.cos,
    )


def underdamped_mean(chart: Chart, splitting: str, h: float, gamma: float) -> float:
    """The average of ``chart.observe`` that positions of a splitting with step size h converge to."""
    x, weight = _hermite_nodes()
    angle, v, noise = torch.meshgrid(_angles(), x * math.sqrt(chart.tau), x, indexing="ij")
    angle, v, noise = angle.reshape(-1), v.reshape(-1), noise.reshape(-1)
    dynamics = Underdamped(parse(splitting), langevin_rates(h, gamma, chart.tau))
    q, p = dynamics.step(
        chart.manifold,
        chart.point(angle),
        chart.momentum(angle, v),
        chart.gradient(angle),
        [chart.white(angle, noise)],
    )
    after = _product(_fourier(chart.angle(q)), _polynomials(chart.speed(q, p) / math.sqrt(chart.tau)))
    after = torch.einsum("ijb,j->ib", after.view(-1, NODES, after.shape[1]), weight)  # E over R
    before_angle, before_v = torch.meshgrid(_angles(), x, indexing="ij")
    before = _product(_fourier(before_angle.reshape(-1)), _polynomials(before_v.reshape(-1)))
    measure = (weight / ANGLES).repeat(ANGLES).unsqueeze(1)
    density = _stationary((before * measure).mT @ after)
    observed = chart.observe(before_angle.reshape(-1)).unsqueeze(1)
    return float(density @ (before * measure * observed).sum(0))


def overdamped_mean(chart: Chart, h: float) -> float:
    """The average of ``chart.observe`` that the overdamped step with step size h converges to."""
    nodes, weight = _hermite_nodes()
    angle, x, y = (each.reshape(-1) for each in torch.meshgrid(_angles(), nodes, nodes, indexing="ij"))
    q = Overdamped(h, chart.tau).step(
        chart.manifold, chart.point(angle), chart.gradient(angle), [chart.white_euler(angle, x, y)]
    )
    after = _fourier(chart.angle(q)).view(ANGLES, NODES, NODES, -1)
    after = torch.einsum("aijb,i,j->ab", after, weight, weight)
    before = _fourier(_angles())
    density = _stationary(before.mT @ after / ANGLES)
    return float(density @ (before * chart.observe(_angles()).unsqueeze(1)).mean(0))


def sphere_overdamped_mean(r: float, k: float, tau: float, h: float) -> float:
    """The average height that the overdamped step samples on Sphere(r, slack=False) in three dimensions.

    The potential is V = -k z. By symmetry the height u = z / r is a Markov chain of its own; its basis are
    the Legendre polynomials, and the noise has three dimensions.
    """
    x, weight = _hermite_nodes(14)
    heights, lengths = (torch.from_numpy(each) for each in np.polynomial.legendre.leggauss(ANGLES))
    u, *noise = (each.reshape(-1) for each in torch.meshgrid(heights, x, x, x, indexing="ij"))
    q = r * torch.stack(((1 - u.square()).sqrt(), torch.zeros_like(u), u), dim=-1).unsqueeze(1)
    grad = torch.tensor([0, 0, -k], dtype=q.dtype).expand_as(q)
    sphere = cl.Sphere(r, slack=False).on((1, 3))
    q = Overdamped(h, tau).step(sphere, q, grad, [torch.stack(noise, dim=-1).unsqueeze(1)])
    after = _legendre(q[:, 0, 2] / r).view(len(heights), len(x), len(x), len(x), -1)
    after = torch.einsum("uijkb,i,j,k->ub", after, weight, weight, weight)
    before = _legendre(heights)
    measure = (lengths / 2).unsqueeze(1)
    density = _stationary((before * measure).mT @ after)
    return float(density @ (before * measure * heights.unsqueeze(1)).sum(0))


def _angles() -> Tensor:
    return torch.arange(ANGLES, dtype=torch.float64) * (math.tau / ANGLES)


def _hermite_nodes(count: int = NODES) -> tuple[Tensor, Tensor]:
    """Nodes and weights for the average over a standard normal."""
    x, weight = np.polynomial.hermite_e.hermegauss(count)
    return torch.from_numpy(x), torch.from_numpy(weight / weight.sum())


def _fourier(angle: Tensor) -> Tensor:
    """Orthonormal Fourier modes under the uniform law, shape (points, 2 MODES + 1)."""
    m = torch.arange(1, MODES + 1, dtype=angle.dtype) * angle.unsqueeze(1)
    return torch.cat((torch.ones_like(angle).unsqueeze(1), math.sqrt(2) * m.cos(), math.sqrt(2) * m.sin()), 1)


def _polynomials(x: Tensor) -> Tensor:
    """Orthonormal Hermite polynomials under the standard normal law, shape (points, POLYNOMIALS)."""
    values = [torch.ones_like(x), x]
    for n in range(1, POLYNOMIALS - 1):
        values.append((x * values[n] - math.sqrt(n) * values[n - 1]) / math.sqrt(n + 1))
    return torch.stack(values, dim=1)


def _legendre(u: Tensor) -> Tensor:
    """Orthonormal Legendre polynomials under the uniform law on [-1, 1], shape (points, MODES)."""
    values = [torch.ones_like(u), u]
    for n in range(1, MODES - 1):
        values.append(((2 * n + 1) * u * values[n] - n * values[n - 1]) / (n + 1))
    return torch.stack([math.sqrt(2 * n + 1) * value for n, value in enumerate(values)], dim=1)


def _product(one: Tensor, other: Tensor) -> Tensor:
    return (one.unsqueeze(2) * other.unsqueeze(1)).flatten(1)


def _stationary(P: Tensor) -> Tensor:
    """Solve c^T P = c^T with c_0 = 1, where the first basis function is the constant."""
    c = torch.linalg.solve((P - torch.eye(len(P), dtype=P.dtype)).mT[1:, 1:], -P[0, 1:])
    return torch.cat((c.new_ones(1), c))
