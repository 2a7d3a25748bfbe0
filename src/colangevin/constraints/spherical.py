"""Spheres and balls: the manifolds of slices whose norm is fixed or bounded."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from colangevin.constraints.capabilities import EmbeddedCurvature
from colangevin.constraints.constraint import Constraint
from colangevin.constraints.forms import SphereForm
from colangevin.constraints.orientation import turned
from colangevin.constraints.radius import rounded_up
from colangevin.constraints.rows import blocks, normalise, polar_form, tangent, tangent_alone
from colangevin.constraints.slices import NOUNS
from colangevin.constraints.stacks import per_copy, ratio
from colangevin.errors import InfeasibleError, label

if TYPE_CHECKING:
    from colangevin.constraints.sphere import Sphere

__all__ = ["Balls", "Spheres"]


class Spheres(EmbeddedCurvature):
    """A sphere for every slice, which is its configuration. The methods call slices rows."""

    constraint: "Sphere"
    independent: Literal["rows"] | None = "rows"
    turns = True

    def __init__(self, constraint: Constraint, shape: tuple[int, ...]) -> None:
        super().__init__(constraint, shape)
        self.radii = self.constraint.known_radii
        self.slices = self.constraint.slices(shape)
        if self.slices.over != "rows" or self.slices.transposed:  # parts are cut along dimension 0
            self.independent = None
        self.ordered = self.slices.in_order and not self.slices.transposed

    @property
    def form(self) -> SphereForm:
        return SphereForm(self.radii, slack=False, slices=self.slices)

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return self.slices.count, self.slices.length

    @property
    def degrees_of_freedom(self) -> int:
        rows, n = self.configuration_shape
        return rows * (n - 1)

    @property
    def smallest_length(self) -> float:
        return self.radii.smallest

    def _r(self, like: Tensor, rows: slice = slice(None)) -> float | Tensor:
        """The radius, of some rows where each has its own."""
        r = self.radii.like(like)
        if not isinstance(r, Tensor):
            return r
        r = r.unsqueeze(-1)
        return r[..., rows, :] if r.dim() > 1 and r.shape[-2] > 1 else r

    # ---- the weight and its rows -----------------------------------------------------------------

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        rows = self.slices.of(weight)
        return self.project(rows, rows)

    def read(self, weight: Tensor) -> Tensor:
        return self.slices.of(weight)

    def lower(self, q: Tensor) -> Tensor:
        return self.slices.joined(q)

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return self.slices.of(grad)

    # ---- moves -----------------------------------------------------------------------------------

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        p_new = torch.empty_like(p)
        for rows in blocks(q):
            p_new[:, rows] = tangent_alone(q[:, rows] / self._r(q, rows), p[:, rows])
        return p_new

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        q_new, p_new = torch.empty_like(q), torch.empty_like(p)
        for rows in blocks(q):
            r = self._r(q, rows)
            s, u = polar_form(p[:, rows])
            x = q[:, rows] / r  # of length 1 as u is, unless p = 0
            phi = (a * (s / r)).clamp_max(torch.finfo(p.dtype).max)
            cos, sin = phi.cos(), phi.sin()
            x_new = normalise((cos * x).addcmul_(sin, u), x)
            q_new[:, rows] = r * x_new
            p_new[:, rows] = tangent(x_new, (s * cos * u).addcmul_(s * sin, x, value=-1))
        return q_new, p_new

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        q_new = torch.empty_like(q)
        for rows in blocks(q):
            r = self._r(q, rows)
            q_new[:, rows] = r * normalise(q_bar[:, rows], q[:, rows] / r)
        return q_new

    def steepest(self, q: Tensor, p: Tensor, orthogonalised: Callable[[Tensor], Tensor]) -> Tensor:
        """Tangent rows whose angles, per unit of time, have the mean 1."""
        d = self.tangent(q, super().steepest(q, p, orthogonalised))
        mean = torch.linalg.vector_norm(d, dim=-1, keepdim=True).mean(1, keepdim=True)
        return self._r(q) * torch.where(mean > 0, d / mean, d)

    def outputs_first(self, stack: Tensor) -> Tensor:
        return turned(stack, self.slices.transposed)

    def curvature(self, q: Tensor) -> Tensor:
        return (1 - q.shape[-1]) * q / self._r(q) ** 2

    # ---- feasibility -----------------------------------------------------------------------------

    def _norms(self, weight: Tensor) -> Tensor:
        """Norms of the rows relative to r, shape (copies, rows)."""
        rows = self.slices.of(weight)
        rows = rows if rows.device.type == "mps" else rows.double()  # which MPS does not have
        return (rows / self._r(rows)).square().sum(-1).sqrt()

    def _lengths(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Norms of the rows relative to r, and as they are."""
        relative = self._norms(weight)
        return relative, (relative.unsqueeze(-1) * self._r(relative)).squeeze(-1)

    def infeasibility(self, weight: Tensor) -> Tensor:
        return (self._norms(weight) - 1).abs().amax(1)

    def explain(self, weight: Tensor) -> str:
        _, norms = self._lengths(weight)
        noun, nouns = NOUNS[self.slices.over]
        return (
            f"{noun} norms lie between {float(norms.min()):.4g} and {float(norms.max()):.4g}, not at "
            f"radius={self.radii}. Pass init='nearest' to colangevin.constrain, or to "
            f"{self.constraint!r}.init_(weight): it rescales the {nouns}."
        )

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        norms, rows = self._norms(weight), self.slices.of(weight)
        if not bool((norms > 0).all()):
            bad, nouns = int((~(norms > 0)).sum()), NOUNS[self.slices.over][1]
            raise InfeasibleError(
                f"{label(name, weight.shape[1:])}: {bad} {nouns} have norm 0, so they have no nearest point "
                f"on the sphere. Initialise these {nouns} at random first."
            )
        return self.lower(self.project(rows, rows))

    def draw(self, weight: Tensor, name: str) -> Tensor:
        q = torch.stack([copy.new_empty(self.configuration_shape).normal_() for copy in weight])
        return self.lower(self.project(q, q))

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        return ((q / self._r(q)).square().sum(-1) - 1).abs().amax(1)

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        inner = (q / self._r(q) * p).sum(-1).abs()
        return ratio(inner, torch.linalg.vector_norm(p, dim=-1)).amax(1)


class Balls(Spheres):
    """The same with slack: the configuration of a row has one more entry, which is not in the weight."""

    hidden = True
    bounded = True
    independent = "rows"

    @property
    def form(self) -> SphereForm:
        return SphereForm(self.radii, slack=True, slices=self.slices)

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        rows, n = super().configuration_shape
        return rows, n + 1

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        rows = self.slices.of(weight)
        norm = self._norms(weight).unsqueeze(-1)
        # of a row at the bound xi is lost in rounding; at 0 it would stay there, and the row at the bound
        least = torch.finfo(rows.dtype).eps
        xi = self._r(rows) * ((1 - norm).clamp_min(0) * (1 + norm)).clamp_min(least).sqrt().to(rows.dtype)
        if near is not None:
            xi = torch.copysign(xi, near[..., -1:])
        q = torch.cat((rows, xi), dim=-1)
        return self.project(q, q)

    def lower(self, q: Tensor) -> Tensor:
        return super().lower(q[..., :-1])

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return torch.nn.functional.pad(self.slices.of(grad), (0, 1))  # dV/dxi = 0

    def without_slack(self, q: Tensor) -> Tensor:
        return torch.nn.functional.pad(q[..., :-1], (0, 1))

    def tangent_trace(self, q: Tensor) -> Tensor:
        return per_copy(q.shape[-1] - 2 + (q / self._r(q))[..., -1].square())

    def infeasibility(self, weight: Tensor) -> Tensor:
        return (self._norms(weight) - 1).clamp_min(0).amax(1)

    def start_tolerance(self, dtype: torch.dtype) -> float:
        # a sum of n squares, cascaded as torch's are, rounds 4 n^(1/4) times; here and in the step before
        rounding = 2 * math.sqrt(math.sqrt(self.slices.length)) * torch.finfo(dtype).eps
        return super().start_tolerance(dtype) + rounding

    def explain(self, weight: Tensor) -> str:
        relative, norms = self._lengths(weight)
        largest, nouns = float(norms.max()), NOUNS[self.slices.over][1]
        return (
            f"{int((~(relative <= 1)).sum())} {nouns} exceed radius={self.radii} (largest norm "
            f"{largest:.4g}). Choose radius >= {rounded_up(largest)}, or pass init='nearest' to "
            f"colangevin.constrain, which shrinks these {nouns} to the radius."
        )

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        norms, rows = self._norms(weight), self.slices.of(weight)
        rows = torch.where((norms > 1).unsqueeze(-1), self.project(rows, rows), rows)
        return self.slices.joined(rows)

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        if weight.dtype == q.dtype:
            q = torch.cat((self.slices.of(weight), q[..., -1:]), dim=-1)
        return super().residual(weight, q)
