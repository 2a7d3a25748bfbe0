r"""Sphere: $\|\mathrm{row}\| \le r$ with slack, $= r$ without."""

import math
from collections.abc import Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.capabilities import EmbeddedCurvature
from colangevin.constraints.constraint import Constraint
from colangevin.constraints.forms import SphereForm
from colangevin.constraints.manifold import Manifold
from colangevin.constraints.radius import Radius, rounded_up
from colangevin.constraints.rows import (
    blocks,
    normalise,
    polar_form,
    precise,
    rows_of,
    tangent,
    tangent_alone,
)
from colangevin.constraints.stacks import per_copy, ratio
from colangevin.errors import ConstraintError, InfeasibleError, label

__all__ = ["Sphere"]


class Spheres(EmbeddedCurvature):
    """A sphere for every row, which is its configuration."""

    constraint: "Sphere"
    independent = "rows"

    @property
    def form(self) -> SphereForm:
        return SphereForm(self.constraint.radii, slack=False)

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return self.shape[0] if self.shape else 1, math.prod(self.shape[1:])

    @property
    def degrees_of_freedom(self) -> int:
        rows, n = self.configuration_shape
        return rows * (n - 1)

    @property
    def smallest_length(self) -> float:
        return self.constraint.radii.smallest

    def _r(self, like: Tensor, rows: slice = slice(None)) -> float | Tensor:
        """The radius, of some rows where each has its own."""
        r = self.constraint.radii.like(like)
        if not isinstance(r, Tensor):
            return r
        r = r.unsqueeze(-1)
        return r[..., rows, :] if r.dim() > 1 and r.shape[-2] > 1 else r

    # ---- the weight and its rows -----------------------------------------------------------------

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        rows = rows_of(weight)
        return self.project(rows, rows)

    def read(self, weight: Tensor) -> Tensor:
        return rows_of(weight)

    def lower(self, q: Tensor) -> Tensor:
        return q.reshape(q.shape[0], *self.shape)

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return rows_of(grad)

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

    def curvature(self, q: Tensor) -> Tensor:
        return (1 - q.shape[-1]) * q / self._r(q) ** 2

    # ---- feasibility -----------------------------------------------------------------------------

    def _norms(self, weight: Tensor) -> Tensor:
        """Norms of the rows relative to r, shape (copies, rows)."""
        rows = precise(rows_of(weight))
        return (rows / self._r(rows)).square().sum(-1).sqrt()

    def _lengths(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Norms of the rows relative to r, and as they are."""
        relative = self._norms(weight)
        return relative, (relative.unsqueeze(-1) * self._r(relative)).squeeze(-1)

    def infeasibility(self, weight: Tensor) -> Tensor:
        return (self._norms(weight) - 1).abs().amax(1)

    def explain(self, weight: Tensor) -> str:
        _, norms = self._lengths(weight)
        return (
            f"row norms lie between {float(norms.min()):.4g} and {float(norms.max()):.4g}, not at "
            f"radius={self.constraint.radii}. Pass init='nearest' to colangevin.constrain, or to "
            f"{self.constraint!r}.init_(weight): it rescales the rows."
        )

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        norms, rows = self._norms(weight), rows_of(weight)
        if not bool((norms > 0).all()):
            bad = int((~(norms > 0)).sum())
            raise InfeasibleError(
                f"{label(name, weight.shape[1:])}: {bad} rows have norm 0, so they have no nearest point on "
                "the sphere. Initialise these rows at random first."
            )
        return self.project(rows, rows).reshape(weight.shape)

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
        return SphereForm(self.constraint.radii, slack=True)

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        rows, n = super().configuration_shape
        return rows, n + 1

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        rows = rows_of(weight)
        norm = self._norms(weight).unsqueeze(-1)
        xi = self._r(rows) * ((1 - norm).clamp_min(0) * (1 + norm)).sqrt().to(rows.dtype)
        if near is not None:
            xi = torch.copysign(xi, near[..., -1:])
        q = torch.cat((rows, xi), dim=-1)
        return self.project(q, q)

    def lower(self, q: Tensor) -> Tensor:
        return super().lower(q[..., :-1])

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return torch.nn.functional.pad(rows_of(grad), (0, 1))  # dV/dxi = 0

    def without_slack(self, q: Tensor) -> Tensor:
        return torch.nn.functional.pad(q[..., :-1], (0, 1))

    def tangent_trace(self, q: Tensor) -> Tensor:
        return per_copy(q.shape[-1] - 2 + (q / self._r(q))[..., -1].square())

    def infeasibility(self, weight: Tensor) -> Tensor:
        return (self._norms(weight) - 1).clamp_min(0).amax(1)

    def start_tolerance(self, dtype: torch.dtype) -> float:
        # a sum of n squares, cascaded as torch's are, rounds 4 n^(1/4) times; here and in the step before
        rounding = 2 * math.sqrt(math.sqrt(math.prod(self.shape[1:]))) * torch.finfo(dtype).eps
        return super().start_tolerance(dtype) + rounding

    def explain(self, weight: Tensor) -> str:
        relative, norms = self._lengths(weight)
        largest = float(norms.max())
        return (
            f"{int((~(relative <= 1)).sum())} rows exceed radius={self.constraint.radii} (largest norm "
            f"{largest:.4g}). Choose radius >= {rounded_up(largest)}, or pass init='nearest' to "
            "colangevin.constrain, which shrinks these rows to the radius."
        )

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        norms, rows = self._norms(weight), rows_of(weight)
        rows = torch.where((norms > 1).unsqueeze(-1), self.project(rows, rows), rows)
        return rows.reshape(weight.shape)

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        if weight.dtype == q.dtype:
            q = torch.cat((rows_of(weight), q[..., -1:]), dim=-1)
        return super().residual(weight, q)


class Sphere(Constraint):
    r"""Bound or fix the norm of every row of a weight: the weights of one output unit, or one filter.

    Choose it with slack to limit what each unit can amplify while its weights share the bound as they like,
    and without slack to fix the norm, as weight normalisation does. A row is a slice along dimension 0,
    flattened. Its configuration is the row, with its slack $\xi$ as a last entry when there is one, on the
    sphere of radius r. Everything is closed form:

    $$
    \Pi_q p = p - \frac{q \cdot p}{r^2} q, \qquad
    q \leftarrow \cos\varphi\, q + \frac{r \sin\varphi}{s} p, \quad
    p \leftarrow \cos\varphi\, p - \frac{s \sin\varphi}{r} q, \quad
    s = \|p\|, \; \varphi = \frac{s h}{r}.
    $$

    Leimkuhler et al. 2021, Eq. 3.

    Args:
        radius: r, a positive number or a tensor with one entry a row; for replicas, one that broadcasts to
            (replicas, rows).
        slack: whether r is a bound (True) or the norm itself (False).

    Raises:
        ConstraintError: when a radius is not positive and finite.

    Examples:
        >>> cl.Sphere(2.0, slack=False)
        Sphere(radius=2, slack=False)
        >>> conv = nn.Conv2d(3, 8, kernel_size=3)
        >>> groups = cl.constrain(conv, {nn.Conv2d: cl.Sphere(1.0, slack=False)})
        >>> norms = conv.weight.flatten(1).norm(dim=1)
        >>> torch.allclose(norms, torch.ones(8))
        True
    """

    def __init__(self, radius: float | Tensor, slack: bool = True) -> None:
        self.radii = Radius(radius)
        self._slack = bool(slack)

    @property
    def radius(self) -> float | Tensor:
        """The bound or the norm r."""
        return self.radii.copy()

    @property
    def slack(self) -> bool:
        """Whether r is a bound rather than the norm."""
        return self._slack

    def __repr__(self) -> str:
        return f"Sphere(radius={self.radii}, slack={self._slack})"

    def on(self, shape: Sequence[int]) -> Manifold:
        return (Balls if self._slack else Spheres)(self, tuple(shape))

    def describe(self) -> dict[str, Any]:
        return {"name": "Sphere", "radius": self.radius, "slack": self._slack}

    def part(self, shape: Sequence[int], slices: Sequence[slice]) -> "Sphere":
        if self.radii.uniform:
            return self
        made = copy(self)
        made.radii = Radius(self.radii.part(shape[:1] or (1,), slices[:1]))
        return made

    def check_shape(self, shape: Sequence[int], name: str = "weight", copies: int = 1) -> None:
        rows = shape[0] if shape else 1
        if not self.radii.broadcasts_to((copies, rows)):
            replicas = f", or one of shape ({copies}, 1) for one a replica" if copies > 1 else ""
            raise ConstraintError(
                f"{label(name, shape)}: radius of shape {self.radii.shape} does not fit "
                f"{rows} rows; give a number, or a tensor of shape ({rows},){replicas}."
            )

    def check_range(self, shape: Sequence[int], dtype: torch.dtype, name: str = "weight") -> None:
        self.radii.check_range(shape, dtype, name)
