r"""Circle: :math:`|\theta_i| \le r_i`, one slack a weight, :math:`\theta^2 + \xi^2 = r^2`."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.base import (
    broadcasts,
    per_copy,
    plus,
    ratio,
    same_description,
)
from colangevin.constraints.elementwise import Elementwise
from colangevin.constraints.radius import (
    check_range,
    radius_copy,
    radius_value,
    radius_words,
    rounded_up,
)
from colangevin.constraints.trigonometry import cosine, largest_angle, sine, write_cosine, write_sine
from colangevin.errors import ConstraintError, label
from colangevin.scratch import scratch

__all__ = ["Circle"]

# A stored angle reproduces the weight, before it was rounded, within this many units of its last place: the
# sines of the step, of its pure form and of other devices differ. A larger difference is a user's edit.
_EDIT_ULPS = 4.0


class Circle(Elementwise):
    r"""Bound the magnitude of every single weight, :math:`|\theta_i| \le r_i` (Eq. 2).

    The configuration is the angle :math:`\beta` from the slack axis and the momentum its velocity:

    .. math::
        \theta = r \sin\beta, \quad \xi = r \cos\beta, \quad p^c = \omega\xi, \quad p^\xi = -\omega\theta,

    which turns the paper's four variables into two and its projections into nothing. Near
    :math:`\theta = 0`, where most weights are, :math:`\beta \approx \theta / r` has the relative precision
    of the weight itself.

    Leimkuhler et al. 2021, appendix "Circle constraint", over- and underdamped.

    Args:
        radius: r, a positive number or a tensor that broadcasts to the weight; for replicas, to their stack.

    Raises:
        ConstraintError: when a radius is not positive and finite.

    >>> Circle(0.05)
    Circle(radius=0.05)
    """

    hidden = True

    def __init__(self, radius: float | Tensor) -> None:
        self._radius = radius_value(radius)

    @property
    def radius(self) -> float | Tensor:
        """The bound r."""
        return radius_copy(self._radius)

    def __repr__(self) -> str:
        return f"Circle(radius={radius_words(self._radius)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Circle) and same_description(self.describe(), other.describe())

    def __hash__(self) -> int:
        return hash(repr(self))

    def describe(self) -> dict[str, Any]:
        return {"name": "Circle", "radius": radius_copy(self._radius)}

    def check_shape(self, shape: Sequence[int], name: str = "weight", copies: int = 1) -> None:
        if isinstance(self._radius, Tensor) and not broadcasts(self._radius.shape, (copies, *shape)):
            replicas = (
                f", or one of shape {(copies, *[1] * len(shape))} for one a replica" if copies > 1 else ""
            )
            raise ConstraintError(
                f"{label(name, shape)}: radius of shape {tuple(self._radius.shape)} does not "
                f"broadcast to the weight; give a number, or a tensor with the weight's shape{replicas}."
            )

    def check_dtype(self, shape: Sequence[int], dtype: torch.dtype, name: str = "weight") -> None:
        check_range(self._radius, shape, dtype, name)

    @property
    def uniform(self) -> bool:
        return not isinstance(self._radius, Tensor)

    def configuration_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(shape)

    def degrees_of_freedom(self, shape: Sequence[int]) -> int:
        return math.prod(shape)

    def _r(self, like: Tensor) -> float | Tensor:
        if isinstance(self._radius, Tensor):
            return self._radius.to(device=like.device, dtype=like.dtype)
        return self._radius

    @property
    def smallest_length(self) -> float:
        return float(self._radius.min()) if isinstance(self._radius, Tensor) else self._radius

    def infeasibility(self, weight: Tensor) -> Tensor:
        excess = (weight.abs() / self._r(weight) - 1).reshape(weight.shape[0], -1).amax(1)
        return excess.clamp_min(0)  # clamp keeps NaN, which no comparison accepts

    def explain(self, weight: Tensor) -> str:
        r = self._r(weight)
        outside = ~(weight.abs() <= r)
        largest = float(weight.abs().max())
        return (
            f"{int(outside.sum())} entries exceed radius={radius_words(self._radius)} "
            f"(largest {largest:.4g}). Choose radius >= {rounded_up(largest)}, or pass init='nearest' to "
            "colangevin.constrain, which clamps these entries to the radius."
        )

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        r = torch.as_tensor(self._r(weight), dtype=weight.dtype, device=weight.device)
        return torch.minimum(torch.maximum(weight, -r), r)

    def draw(self, weight: Tensor, name: str) -> Tensor:
        beta = torch.stack([math.pi * (2 * torch.rand_like(copy) - 1) for copy in weight])
        return self.lower(beta, weight.shape[1:])

    def resting(self, weight: Tensor) -> int:
        """How many weights sit exactly at the bound, where the gradient has no tangential part."""
        return int((weight.abs() >= self._r(weight)).sum())

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        beta = (weight / self._r(weight)).clamp(-1, 1).asin()
        if near is None:
            return beta
        # beyond a right angle from the slack axis, where xi < 0, stay beyond it
        return torch.where(near.cos() < 0, torch.copysign(beta.new_tensor(math.pi), beta) - beta, beta)

    def lower(self, q: Tensor, shape: Sequence[int]) -> Tensor:
        return sine(q) * self._r(q)

    def reconcile(self, weight: Tensor, q: Tensor) -> Tensor:
        stored = self.lower(q, weight.shape[1:])
        info = torch.finfo(q.dtype)
        doubt = stored.abs() * (_EDIT_ULPS * info.eps) + info.tiny
        # rounding keeps the order: a coarse weight lies between the roundings of both ends
        low, high = (stored - doubt).to(weight.dtype), (stored + doubt).to(weight.dtype)
        kept = (weight >= low) & (weight <= high)
        if bool(kept.all()):
            return q
        return torch.where(kept, q, self.lift(weight.to(q.dtype), near=q))

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return cosine(q) * grad * (1 / self._r(q))  # xi G / r^2

    def kick_(self, q: Tensor, p: Tensor, grad: Tensor, b: float) -> None:
        xi = scratch("slack", q.shape, q.dtype, q.device)
        write_cosine(q, largest_angle(q), xi)
        p.addcmul_(xi, grad, value=-b / self.smallest_length)

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        return p

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        beta = plus(q, p, a)
        return torch.sub(beta, (beta * (1 / math.tau)).round_(), alpha=math.tau), p

    def drift_(self, q: Tensor, p: Tensor, a: float) -> None:
        q.add_(p, alpha=a)

    def lower_(self, q: Tensor, weight: Tensor) -> None:
        largest = largest_angle(q)
        if largest > math.pi:  # seldom, and to look costs less than to round
            q.sub_((q * (1 / math.tau)).round_(), alpha=math.tau)
        write_sine(q, largest, self.smallest_length, weight)

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        # q_bar is (theta, xi) in its last dimension; atan2, since arctan would fold theta < 0 away
        return torch.atan2(q_bar[..., 0], q_bar[..., 1])

    def euler(self, q: Tensor, grad: Tensor, h: float, sigma: float, noise: Tensor | None) -> Tensor:
        r = self._r(q)
        q_bar = torch.stack((plus(r * q.sin(), grad, -h), r * q.cos()), dim=-1)
        if noise is not None:
            q_bar = plus(q_bar, noise, sigma)
        return self.project(q, q_bar)

    def euler_noise_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape, 2)

    def white(self, q: Tensor, noise: Tensor) -> Tensor:
        return noise / self._r(q)

    def virial(self, q: Tensor, force: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
        theta, xi = q.sin(), q.cos()
        away = theta - reference.sin()
        return per_copy(force * self._r(q) ** 2 * xi * away), per_copy(xi.square() - theta * away)

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        # a coarse weight is only a rounding of its configuration, a full one is theta itself
        r = self._r(q)
        theta = weight / r if weight.dtype == q.dtype else q.sin()
        return (theta.square() + q.cos().square() - 1).abs().reshape(q.shape[0], -1).amax(1)

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        theta, xi = q.sin(), q.cos()
        inner = (theta * (p * xi) + xi * (-p * theta)).abs()
        return ratio(inner, p.abs()).reshape(q.shape[0], -1).amax(1)

    def squared_norm(self, q: Tensor, p: Tensor) -> Tensor:
        return (p * self._r(p)).square().reshape(p.shape[0], -1).sum(1)
