r"""Non-negative entries: $\theta_i \ge 0$, each the square of a free number, $\theta_i = \xi_i^2$."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from colangevin.constraints.capabilities import EmbeddedCurvature
from colangevin.constraints.constraint import Constraint
from colangevin.constraints.dtypes import state_dtype
from colangevin.constraints.forms import SquareForm
from colangevin.constraints.stacks import largest_per_copy, plus

__all__ = ["NonNegative", "farthest_root"]


def farthest_root(dtype: torch.dtype) -> float:
    """Where roots stop.

    The force on a root grows with the root, so that a step which is too long multiplies it by the same factor
    again and again: in float32 a gradient that is cut to 4e9 leads beyond all numbers in two steps. At the
    fourth root of the largest number there is room for the cube of a root, which is the force of weight
    decay. The square must also be a number of the weight's dtype, and is a quarter of the largest in float16.

    Args:
        dtype: of the weight.

    Returns:
        A power of two, which rounding leaves as it is: 2^7 in float16, 2^32 in bfloat16 and float32, 2^256 in
        float64.
    """
    of_state, of_weight = (math.log2(torch.finfo(each).max) for each in (state_dtype(dtype), dtype))
    return 2.0 ** min(round(of_state) // 4, round(of_weight) // 2 - 1)


class Roots(EmbeddedCurvature):
    """The line for every element; the configuration is the root of the weight, of either sign."""

    hidden = True
    bounded = True
    independent = "entries"

    @property
    def form(self) -> SquareForm:
        return SquareForm()

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def degrees_of_freedom(self) -> int:
        return math.prod(self.shape)

    # ---- the weight and its root -----------------------------------------------------------------

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        xi = weight.clamp_min(0).sqrt()
        return xi if near is None else torch.copysign(xi, near)

    def lower(self, q: Tensor) -> Tensor:
        return q.square()

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return 2 * q * grad

    def reconcile(self, weight: Tensor, q: Tensor) -> Tensor:
        kept = self.lower(q).to(weight.dtype) == weight
        return q if bool(kept.all()) else torch.where(kept, q, self.lift(weight.to(q.dtype), near=q))

    def stopped(self, q: Tensor, dtype: torch.dtype) -> Tensor:
        farthest = farthest_root(dtype)
        return q.clamp(-farthest, farthest)

    # ---- moves -----------------------------------------------------------------------------------

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        return p

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        return plus(q, p, a), p

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        return q_bar

    def curvature(self, q: Tensor) -> Tensor:
        return torch.zeros_like(q)

    # ---- feasibility -----------------------------------------------------------------------------

    def infeasibility(self, weight: Tensor) -> Tensor:
        # of Inf there is no root; clamp keeps NaN, which no comparison accepts
        return largest_per_copy(-weight.masked_fill(weight.isinf(), -torch.inf)).clamp_min(0)

    def explain(self, weight: Tensor) -> str:
        outside, smallest = int((~(weight >= 0)).sum()), float(weight.min())
        return (
            f"{outside} entries are not at least 0 (smallest {smallest:.4g}), or some are Inf. "
            "Take the absolute values first, weight.abs_() under torch.no_grad(), or pass init='nearest' to "
            "colangevin.constrain, which sets these entries to 0, where only noise moves them."
        )

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        return weight.clamp_min(0)

    def at_rest(self, weight: Tensor) -> int:
        return int((weight <= 0).sum())

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        return p.new_zeros(p.shape[0])


@dataclass(frozen=True)
class NonNegative(Constraint):
    r"""Keep every single weight at 0 or above, $\theta_i \ge 0$: parts that add up and never cancel.

    Choose it for monotone networks, non-negative factorisations, rates and scales. `constrain` refuses
    negative weights: `weight.abs_()` is a start that keeps their sizes.

    Every weight is the square of a root $\xi_i$ that moves freely, $\theta_i = \xi_i^2$. The root is the
    configuration; geodesics are straight lines, and a weight reaches 0 and leaves it again without a
    collision. The force on a root is $2 \xi_i G_i$, so a step of SGD with the rate `lr` changes a weight by
    about $-4\,\mathrm{lr}\,\theta_i G_i$: in proportion to its size, and not at all at $\theta_i = 0$. A
    weight that starts exactly at 0 moves only with noise, of which a warning tells. Steps that are too long
    for the loss grow without end, as those of SGD do. Weights stop at 1.8e19 in float32 and bfloat16, at
    16,384 in float16 and at 1.3e154 in float64, and come back when the gradient lets them.

    Under a loss L the weights have the density $e^{-L/\tau} \prod_i \theta_i^{-1/2}$. At $L = 0$ it has no
    finite integral: roots then diffuse without end. With $L = k\,\theta$ it is the Gamma law of shape 1/2 and
    mean $\tau / 2k$. (The slack of the paper's general constraint, $\theta = \xi^2$ with the geometry of the
    parabola $(\theta, \xi)$, has another law and no geodesics in closed form; it is
    `cl.Implicit(lambda w: -w, inequality=True)`.)

    Examples:
        >>> model = nn.Linear(3, 2)
        >>> with torch.no_grad():
        ...     _ = model.weight.abs_()
        >>> groups = cl.constrain(model, {"weight": cl.NonNegative()})
        >>> cl.NonNegative().violation(torch.tensor([0.5, -0.25]))
        0.25
    """

    manifold = Roots
