"""No constraint: the whole space, so that free parameters take the same steps as the others."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from colangevin.constraints.capabilities import EmbeddedCurvature
from colangevin.constraints.constraint import Constraint
from colangevin.constraints.forms import ElementwiseForm
from colangevin.constraints.stacks import plus

__all__ = ["Free"]


class Space(EmbeddedCurvature):
    """The weights themselves."""

    free = True
    independent = "entries"

    @property
    def form(self) -> ElementwiseForm:
        return ElementwiseForm(None)

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def degrees_of_freedom(self) -> int:
        return math.prod(self.shape)

    def infeasibility(self, weight: Tensor) -> Tensor:
        return weight.new_zeros(weight.shape[0])

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        return weight

    def lower(self, q: Tensor) -> Tensor:
        return q

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        return p

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        return plus(q, p, a), p

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        return q_bar

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return grad

    def stored(self, dtype: torch.dtype) -> bool:
        return False  # as in torch.optim.SGD, a half-precision weight has no copy in higher precision

    def draw(self, weight: Tensor, name: str) -> Tensor:
        return weight  # the whole space has no uniform law

    def curvature(self, q: Tensor) -> Tensor:
        return torch.zeros_like(q)

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        return p.new_zeros(p.shape[0])


@dataclass(frozen=True)
class Free(Constraint):
    """No constraint: what every parameter has that no rule constrains.

    Biases, normalisation layers and embeddings are usually left free. At temperature 0 a free parameter takes
    the steps of `torch.optim.SGD`.

    Examples:
        >>> model = nn.Linear(3, 2)
        >>> optimizer = cl.ConstrainedSGD(model.named_parameters(), 0.1)
        >>> optimizer.param_groups[0]["constraint"]
        Free()
        >>> cl.Free().violation(model.weight)
        0.0
    """

    manifold = Space
