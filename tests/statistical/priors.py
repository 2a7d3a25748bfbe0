"""A prior on every constraint: draws of it and of a law that only looks like it, and its second moments."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import colangevin as cl

__all__ = ["CASES", "Case", "Draw"]

Draw = Callable[[int], Tensor]


def _nothing(w: Tensor) -> Tensor:
    return torch.zeros_like(w)


def _normal(w: Tensor) -> Tensor:
    """The gradient of |w|^2 / 2."""
    return w


@dataclass(frozen=True)
class Case:
    """A constraint on one weight and a prior there.

    Attributes:
        constraint: the constraint.
        shape: of the weight.
        draw: from the prior.
        wrong: from a law that is uniform, or the prior, in other coordinates.
        squares: E w_k^2 under the prior, of every entry or of all alike.
        prior: the gradient of minus the prior's log-density with respect to the law that is sampled without a
            loss.
        strength: of the data, so that a step of 0.14 is small.
        falling: whether every entry lowers the counts, as entries without a bound have to.
        native: whether the native library takes its steps.
    """

    constraint: cl.Constraint
    shape: tuple[int, ...]
    draw: Draw
    wrong: Draw
    squares: float | tuple[float, ...]
    prior: Callable[[Tensor], Tensor] = _nothing
    strength: float = 1.2
    falling: bool = False
    native: bool = True

    @property
    def spread(self) -> float:
        """The expectation of the sum of k w_k^2, k = 1, 2, ..."""
        n = math.prod(self.shape)
        squares = self.squares if isinstance(self.squares, tuple) else (self.squares,) * n
        return sum(k * square for k, square in enumerate(squares, start=1))


def _random(*shape: int) -> Tensor:
    return torch.rand(shape, dtype=torch.float64)


def _gaussian(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def _uniform(constraint: cl.Constraint, *shape: int) -> Draw:
    def draw(count: int) -> Tensor:
        weight = torch.empty(count, *shape, dtype=torch.float64)
        return constraint.init_(weight, init="draw", replicas=True)

    return draw


def _in_discs(count: int, discs: int) -> Tensor:
    """By area, not by the area of the hemisphere above; shape (count, discs, 2)."""
    radius, angle = _random(count, discs).sqrt(), math.tau * _random(count, discs)
    return torch.stack((radius * angle.cos(), radius * angle.sin()), dim=-1)


def _by_angles(count: int) -> Tensor:
    """Two uniform angles: too many points near the poles."""
    polar, around = math.pi * _random(count), math.tau * _random(count)
    z, flat = polar.cos(), polar.sin()
    return torch.stack((flat * around.cos(), flat * around.sin(), z), dim=-1).unsqueeze(1)


def _by_three_angles(count: int) -> Tensor:
    """The same on the sphere in four dimensions, as 2 x 2 matrices."""
    polar = math.pi * _random(count, 1)
    return torch.cat((polar.sin() * _by_angles(count).squeeze(1), polar.cos()), dim=1).view(count, 2, 2)


def _by_columns(count: int) -> Tensor:
    """Frames whose first column is drawn by two uniform angles."""
    first = _by_angles(count).squeeze(1)
    other = torch.linalg.cross(first, torch.randn_like(first))
    return torch.stack((first, other / other.norm(dim=1, keepdim=True)), dim=-1)


def _symmetric(count: int, off_diagonal: float) -> Tensor:
    """Normal entries, with this variance off the diagonal."""
    one, two, off = _gaussian(3, count)
    off = math.sqrt(off_diagonal) * off
    return torch.stack((one, off, off, two), dim=-1).view(count, 2, 2)


def _dirichlet(count: int, shape: float) -> Tensor:
    law = torch.distributions.Dirichlet(torch.full((3,), shape, dtype=torch.float64))
    return law.sample((count,)).unsqueeze(1)


def _gamma(count: int, shape: float) -> Tensor:
    return torch.distributions.Gamma(torch.tensor(shape, dtype=torch.float64), 1.0).sample((count, 3))


#: the plane w_1 + 2 w_2 - w_3 = 1, by the nearest point to 0 and two directions
_NORMAL = torch.tensor([[1.0, 2.0, -1.0]], dtype=torch.float64)
_AFFINE = cl.Affine(_NORMAL, torch.ones(1, dtype=torch.float64))


def _on_plane(normal: Tensor) -> Draw:
    """Normal entries, given that normal . w = 1."""

    def draw(count: int) -> Tensor:
        w = _gaussian(count, 1, 3)
        return w - (w @ normal.mT - 1) @ normal / normal.square().sum()

    return draw


def _by_two_entries(normal: Tensor) -> Draw:
    """The first two entries normal, the third what the equation leaves."""

    def draw(count: int) -> Tensor:
        w = _gaussian(count, 1, 3)
        w[..., 2] = (1 - w[..., :2] @ normal[0, :2]) / normal[0, 2]
        return w

    return draw


def _plane_squares(normal: Tensor) -> tuple[float, ...]:
    """Squares of the mean, and the diagonal of the covariance I - n n^T / |n|^2."""
    length = float(normal.square().sum())
    return tuple((entry / length) ** 2 + 1 - entry**2 / length for entry in normal[0].tolist())


def on_the_sphere(w: Tensor) -> Tensor:
    return w.square().sum().reshape(1) - 1


_ONES = torch.ones(1, 3, dtype=torch.float64)
_SPHERE, _BALL = cl.Sphere(1.0, slack=False), cl.Sphere(1.0)
_COLUMNS, _MATRIX = cl.Sphere(1.0, over="columns"), cl.Sphere(1.0, slack=False, over="matrix")
_SCALED, _BLOCKS = cl.Orthogonal(scale=0.8), cl.Orthogonal(blocks=2)
CASES = {
    "circle": Case(
        cl.Circle(1.0), (1,), _uniform(cl.Circle(1.0), 1), lambda count: 2 * _random(count, 1) - 1, 1 / 2
    ),
    "sphere": Case(_SPHERE, (1, 3), _uniform(_SPHERE, 1, 3), _by_angles, 1 / 3),
    "ball": Case(_BALL, (1, 2), _uniform(_BALL, 1, 2), lambda count: _in_discs(count, 1), 1 / 3),
    "columns": Case(
        _COLUMNS,
        (2, 2),
        _uniform(_COLUMNS, 2, 2),
        lambda count: _in_discs(count, 2).mT.contiguous(),
        1 / 3,
        native=False,
    ),
    "matrix": Case(_MATRIX, (2, 2), _uniform(_MATRIX, 2, 2), _by_three_angles, 1 / 4),
    "frames": Case(cl.Orthogonal(), (3, 2), _uniform(cl.Orthogonal(), 3, 2), _by_columns, 1 / 3),
    "scaled": Case(
        _SCALED,
        (3, 2),
        _uniform(_SCALED, 3, 2),
        lambda count: 0.8 * _by_columns(count),
        0.8**2 / 3,
    ),
    "blocks": Case(
        _BLOCKS,
        (4, 3),
        _uniform(_BLOCKS, 4, 3),
        lambda count: torch.cat((_by_columns(count).mT, _by_columns(count).mT), dim=1),
        1 / 3,
        strength=0.7,
    ),
    "implicit": Case(
        cl.Implicit(on_the_sphere, over="rows"),
        (1, 3),
        _uniform(_SPHERE, 1, 3),
        _by_angles,
        1 / 3,
        native=False,
    ),
    "sum": Case(
        cl.Affine.sum(1.0),
        (1, 3),
        _on_plane(_ONES),
        _by_two_entries(_ONES),
        _plane_squares(_ONES),
        _normal,
        strength=0.4,
    ),
    "equation": Case(
        _AFFINE,
        (1, 3),
        _on_plane(_NORMAL),
        _by_two_entries(_NORMAL),
        _plane_squares(_NORMAL),
        _normal,
        strength=0.4,
        native=False,
    ),
    "symmetric": Case(
        cl.Symmetric(),
        (2, 2),
        lambda count: _symmetric(count, 1 / 2),
        lambda count: _symmetric(count, 1.0),
        (1.0, 1 / 2, 1 / 2, 1.0),
        _normal,
        strength=0.35,
        native=False,
    ),
    # without a loss w has the density w^(-1/2); the prior e^(-w) makes it a Gamma law
    "nonnegative": Case(
        cl.NonNegative(),
        (3,),
        lambda count: _gamma(count, 1 / 2),
        lambda count: _gamma(count, 1.0),
        3 / 4,
        torch.ones_like,
        strength=0.4,
        falling=True,
    ),
    # Dirichlet(1/2), not Dirichlet(1), which is uniform in the weights
    "simplex": Case(
        cl.Simplex(),
        (1, 3),
        lambda count: _dirichlet(count, 1 / 2),
        lambda count: _dirichlet(count, 1.0),
        1 / 5,
    ),
}
