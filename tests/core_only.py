"""Constraints as a user would add them, with the required core alone: the whole contract runs over them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

import colangevin as cl
from colangevin.constraints import Manifold


class SymmetricMatrices(Manifold):
    """W = W^T: a plane, in the coordinates of the weight."""

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def degrees_of_freedom(self) -> int:
        n = self.shape[0]
        return n * (n + 1) // 2

    def infeasibility(self, weight: Tensor) -> Tensor:
        return (weight - weight.mT).abs().amax((1, 2)) / weight.abs().amax((1, 2)).clamp_min(1e-30)

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        return (weight + weight.mT) / 2

    def lower(self, q: Tensor) -> Tensor:
        return q

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        return (p + p.mT) / 2

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        return q + a * p, p

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        return (q_bar + q_bar.mT) / 2


@dataclass(frozen=True)
class Symmetric(cl.Constraint):
    """Square matrices that equal their transpose."""

    manifold = SymmetricMatrices


class UnitColumns(Manifold):
    """Columns of length s: spheres, in the coordinates of the weight."""

    constraint: "Columns"

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def degrees_of_freedom(self) -> int:
        rows, columns = self.shape
        return (rows - 1) * columns

    def infeasibility(self, weight: Tensor) -> Tensor:
        return (weight.norm(dim=1) / self.constraint.length - 1).abs().amax(1)

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        return self.constraint.length * weight / weight.norm(dim=1, keepdim=True)

    def lower(self, q: Tensor) -> Tensor:
        return q

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        x = q / q.norm(dim=1, keepdim=True)
        return p - x * (x * p).sum(1, keepdim=True)

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        r, speed = self.constraint.length, p.norm(dim=1, keepdim=True)
        phi = a * speed / r
        ahead = torch.where(speed > 0, phi.sin() / speed.clamp_min(1e-30), a / r)
        q_new = self.lift(phi.cos() * q + r * ahead * p)
        return q_new, self.tangent(q_new, phi.cos() * p - speed / r * phi.sin() * q)

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        return self.lift(q_bar)


@dataclass(frozen=True)
class Columns(cl.Constraint):
    """Columns of one length."""

    length: float

    manifold = UnitColumns


class SquaresOnSpheres(Manifold):
    """Rows of squares, w = q^2 with |q| = 1. The weight does not tell the sign of q, so q is stored."""

    hidden = True

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def degrees_of_freedom(self) -> int:
        return math.prod(self.shape[:-1]) * (self.shape[-1] - 1)

    def infeasibility(self, weight: Tensor) -> Tensor:
        off = (weight.sum(-1) - 1).abs().flatten(1).amax(1)
        return torch.maximum(off, (-weight).clamp_min(0).flatten(1).amax(1))

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        q = weight.clamp_min(0).sqrt()
        q = q if near is None else torch.copysign(q, near)
        return q / q.norm(dim=-1, keepdim=True)

    def lower(self, q: Tensor) -> Tensor:
        return q.square()

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        return p - q * (q * p).sum(-1, keepdim=True)

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        speed = p.norm(dim=-1, keepdim=True)
        ahead = torch.where(speed > 0, (a * speed).sin() / speed.clamp_min(1e-30), a)
        q_new = self.project(q, (a * speed).cos() * q + ahead * p)
        return q_new, self.tangent(q_new, (a * speed).cos() * p - speed * (a * speed).sin() * q)

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        return q_bar / q_bar.norm(dim=-1, keepdim=True)


@dataclass(frozen=True)
class Simplex(cl.Constraint):
    """Rows that are probabilities."""

    manifold = SquaresOnSpheres
