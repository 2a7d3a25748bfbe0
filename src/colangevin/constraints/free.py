"""No constraint: the whole space, so that free parameters take the same steps as the others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.base import plus
from colangevin.constraints.elementwise import Elementwise

__all__ = ["Free"]


@dataclass(frozen=True)
class Free(Elementwise):
    """A parameter without a constraint; the default of every parameter.

    Its steps are those of ``torch.optim.SGD`` when the temperature is zero.
    """

    def describe(self) -> dict[str, Any]:
        return {"name": "Free"}

    def configuration_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(shape)

    def degrees_of_freedom(self, shape: Sequence[int]) -> int:
        return math.prod(shape)

    def infeasibility(self, weight: Tensor) -> Tensor:
        return weight.new_zeros(weight.shape[0])

    def explain(self, weight: Tensor) -> str:
        return "a free weight is always feasible."

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        return weight

    def draw(self, weight: Tensor, name: str) -> Tensor:
        return weight  # the whole space has no uniform law

    def keeps_position(self, dtype: torch.dtype) -> bool:
        # As in torch.optim.SGD, a half-precision free weight has no copy in higher precision.
        return False

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        return weight

    def lower(self, q: Tensor, shape: Sequence[int]) -> Tensor:
        return q

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return grad

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        return p

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        return plus(q, p, a), p

    def kick_(self, q: Tensor, p: Tensor, grad: Tensor, b: float) -> None:
        p.add_(grad, alpha=-b)

    def drift_(self, q: Tensor, p: Tensor, a: float) -> None:
        q.add_(p, alpha=a)

    def lower_(self, q: Tensor, weight: Tensor) -> None:
        if weight is not q:
            weight.copy_(q)

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        return q_bar

    def curvature(self, q: Tensor) -> Tensor:
        return torch.zeros_like(q)

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        return weight.new_zeros(weight.shape[0])

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        return p.new_zeros(p.shape[0])
