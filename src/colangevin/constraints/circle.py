r"""Circle: $|\theta_i| \le r_i$, one slack a weight, $\theta^2 + \xi^2 = r^2$."""

import math
from collections.abc import Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.capabilities import Curvature, Metric
from colangevin.constraints.constraint import Constraint
from colangevin.constraints.forms import ElementwiseForm
from colangevin.constraints.radius import Radius, rounded_up
from colangevin.constraints.stacks import largest_per_copy, per_copy, plus, ratio
from colangevin.errors import ConstraintError, label

__all__ = ["Circle"]

# A stored angle reproduces the weight, before it was rounded, within this many units of its last place: the
# sines of the step, of its pure form and of other devices differ. A larger difference is a user's edit.
_EDIT_ULPS = 4.0


class Angles(Metric, Curvature):
    """A circle for every element; the configuration is its angle from the slack axis."""

    constraint: "Circle"
    hidden = True
    bounded = True
    independent = "entries"

    @property
    def form(self) -> ElementwiseForm:
        return ElementwiseForm(self.constraint.radii)

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def degrees_of_freedom(self) -> int:
        return math.prod(self.shape)

    def _r(self, like: Tensor) -> float | Tensor:
        return self.constraint.radii.like(like)

    @property
    def smallest_length(self) -> float:
        return self.constraint.radii.smallest

    # ---- the weight and its angle ----------------------------------------------------------------

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        beta = (weight / self._r(weight)).clamp(-1, 1).asin()
        if near is None:
            return beta
        # cos(near) < 0: xi was negative, so the angle stays more than a right angle from the slack axis
        return torch.where(near.cos() < 0, torch.copysign(beta.new_tensor(math.pi), beta) - beta, beta)

    def lower(self, q: Tensor) -> Tensor:
        return q.sin() * self._r(q)

    def reconcile(self, weight: Tensor, q: Tensor) -> Tensor:
        stored = self.lower(q)
        info = torch.finfo(q.dtype)
        doubt = stored.abs() * (_EDIT_ULPS * info.eps) + info.tiny
        # rounding keeps the order: a coarse weight lies between the roundings of both ends
        low, high = (stored - doubt).to(weight.dtype), (stored + doubt).to(weight.dtype)
        kept = (weight >= low) & (weight <= high)
        if bool(kept.all()):
            return q
        return torch.where(kept, q, self.lift(weight.to(q.dtype), near=q))

    # ---- moves -----------------------------------------------------------------------------------

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        return p

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        beta = plus(q, p, a)
        return torch.sub(beta, (beta * (1 / math.tau)).round_(), alpha=math.tau), p

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        # q_bar is (theta, xi) in its last dimension; atan2, since arctan would fold theta < 0 away
        return torch.atan2(q_bar[..., 0], q_bar[..., 1])

    def euler(self, q: Tensor, grad: Tensor, h: float, sigma: float, noise: Tensor | None) -> Tensor:
        r = self._r(q)
        q_bar = torch.stack((plus(r * q.sin(), grad, -h), r * q.cos()), dim=-1)
        if noise is not None:
            q_bar = plus(q_bar, noise, sigma)
        return self.project(q, q_bar)

    @property
    def euler_noise_shape(self) -> tuple[int, ...]:
        return (*self.shape, 2)

    # ---- metric and curvature --------------------------------------------------------------------

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return q.cos() * grad * (1 / self._r(q))  # xi G / r^2

    def white(self, q: Tensor, noise: Tensor) -> Tensor:
        return noise / self._r(q)

    def lengths(self, q: Tensor, p: Tensor) -> Tensor:
        return p * self._r(p)

    def squared_norm(self, q: Tensor, p: Tensor) -> Tensor:
        return per_copy(self.lengths(q, p).square())

    def virial(self, q: Tensor, force: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
        theta, xi = q.sin(), q.cos()
        away = theta - reference.sin()
        return per_copy(force * self._r(q) ** 2 * xi * away), per_copy(xi.square() - theta * away)

    # ---- feasibility -----------------------------------------------------------------------------

    def infeasibility(self, weight: Tensor) -> Tensor:
        excess = largest_per_copy(weight.abs() / self._r(weight) - 1)
        return excess.clamp_min(0)  # clamp keeps NaN, which no comparison accepts

    def explain(self, weight: Tensor) -> str:
        outside = ~(weight.abs() <= self._r(weight))
        largest = float(weight.abs().max())
        return (
            f"{int(outside.sum())} entries exceed radius={self.constraint.radii} "
            f"(largest {largest:.4g}). Choose radius >= {rounded_up(largest)}, or pass init='nearest' to "
            "colangevin.constrain, which clamps these entries to the radius."
        )

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        r = torch.as_tensor(self._r(weight), dtype=weight.dtype, device=weight.device)
        return torch.minimum(torch.maximum(weight, -r), r)

    def draw(self, weight: Tensor, name: str) -> Tensor:
        return self.lower(torch.stack([math.pi * (2 * torch.rand_like(copy) - 1) for copy in weight]))

    def at_rest(self, weight: Tensor) -> int:
        return int((weight.abs() >= self._r(weight)).sum())

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        # a full-precision weight is theta itself; a coarse one is only a rounding of r sin(q)
        theta = weight / self._r(q) if weight.dtype == q.dtype else q.sin()
        return largest_per_copy((theta.square() + q.cos().square() - 1).abs())

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        theta, xi = q.sin(), q.cos()
        inner = (theta * (p * xi) + xi * (-p * theta)).abs()
        return largest_per_copy(ratio(inner, p.abs()))


class Circle(Constraint):
    r"""Keep every single weight small, $|\theta_i| \le r_i$: bounded weights make smooth functions.

    Choose it to bound the weights of a layer one by one; to bound a unit's weights together, take `Sphere`.
    `constrain` refuses a radius below the largest initial weight, and names one that fits. Every weight has a
    slack $\xi_i$ beside it and moves on the circle $\theta_i^2 + \xi_i^2 = r_i^2$.

    The configuration is the angle $\beta$ from the slack axis and the momentum its velocity:

    $$
    \theta = r \sin\beta, \quad \xi = r \cos\beta, \quad p^c = \omega\xi, \quad p^\xi = -\omega\theta,
    $$

    which turns the paper's four variables into two and its projections into nothing. Near $\theta = 0$, where
    most weights are, $\beta \approx \theta / r$ has the relative precision of the weight itself.

    Leimkuhler et al. 2021, Eq. 2 and appendix "Circle constraint", over- and underdamped.

    Args:
        radius: r, a positive number or a tensor that broadcasts to the weight; for replicas, to their stack.

    Raises:
        ConstraintError: when a radius is not positive and finite.

    Examples:
        >>> cl.Circle(0.05)
        Circle(radius=0.05)
        >>> cl.Circle(0.05).violation(torch.tensor([0.01, -0.04]))
        0.0
        >>> model = nn.Linear(3, 2)
        >>> groups = cl.constrain(model, {"weight": cl.Circle(2.0)})
        >>> cl.Circle(torch.tensor([1.0, 2.0])) == cl.Circle(torch.tensor([1.0, 2.0]))
        True
    """

    manifold = Angles

    def __init__(self, radius: float | Tensor) -> None:
        self.radii = Radius(radius)

    @property
    def radius(self) -> float | Tensor:
        """The bound r."""
        return self.radii.copy()

    def __repr__(self) -> str:
        return f"Circle(radius={self.radii})"

    def describe(self) -> dict[str, Any]:
        return {"name": "Circle", "radius": self.radius}

    def part(self, shape: Sequence[int], slices: Sequence[slice]) -> "Circle":
        if self.radii.uniform:
            return self
        made = copy(self)
        made.radii = Radius(self.radii.part(shape, slices))
        return made

    def check_shape(self, shape: Sequence[int], name: str = "weight", copies: int = 1) -> None:
        if not self.radii.broadcasts_to((copies, *shape)):
            replicas = (
                f", or one of shape {(copies, *[1] * len(shape))} for one a replica" if copies > 1 else ""
            )
            raise ConstraintError(
                f"{label(name, shape)}: radius of shape {self.radii.shape} does not "
                f"broadcast to the weight; give a number, or a tensor with the weight's shape{replicas}."
            )

    def check_range(self, shape: Sequence[int], dtype: torch.dtype, name: str = "weight") -> None:
        self.radii.check_range(shape, dtype, name)
