r"""Sphere: :math:`\|\mathrm{row}\| \le r` with slack, :math:`= r` without."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.base import (
    Constraint,
    broadcasts,
    per_copy,
    ratio,
    same_description,
)
from colangevin.constraints.radius import (
    check_range,
    radius_copy,
    radius_value,
    radius_words,
    rounded_up,
)
from colangevin.errors import ConstraintError, InfeasibleError, label

__all__ = ["Sphere"]

_BLOCK = 1 << 18  # entries that a CPU works on at a time


class Sphere(Constraint):
    r"""Bound or fix the norm of every row of a weight (Eq. 3).

    A row is a slice along dimension 0, flattened: an output unit's weights, a convolution filter. Its
    configuration is the row, with its slack :math:`\xi` as a last entry when there is one, on the sphere
    of radius r. Everything is closed form:

    .. math::
        \Pi_q p = p - \frac{q \cdot p}{r^2} q, \qquad
        q \leftarrow \cos\varphi\, q + \frac{r \sin\varphi}{s} p, \quad
        p \leftarrow \cos\varphi\, p - \frac{s \sin\varphi}{r} q, \quad
        s = \|p\|, \; \varphi = \frac{s h}{r}.

    Args:
        radius: r, a positive number or a tensor with one entry a row; for replicas, one that broadcasts to
            (replicas, rows).
        slack: whether r is a bound (True) or the norm itself (False).

    Raises:
        ConstraintError: when a radius is not positive and finite.

    >>> Sphere(2.0, slack=False)
    Sphere(radius=2, slack=False)
    """

    def __init__(self, radius: float | Tensor, slack: bool = True) -> None:
        self._radius = radius_value(radius)
        self._slack = bool(slack)

    @property
    def radius(self) -> float | Tensor:
        """The bound or the norm r."""
        return radius_copy(self._radius)

    @property
    def slack(self) -> bool:
        """Whether r is a bound rather than the norm."""
        return self._slack

    @property
    def hidden(self) -> bool:  # type: ignore[override]
        """The slack is not in the weight."""
        return self._slack

    def __repr__(self) -> str:
        return f"Sphere(radius={radius_words(self._radius)}, slack={self._slack})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sphere) and same_description(self.describe(), other.describe())

    def __hash__(self) -> int:
        return hash(repr(self))

    def describe(self) -> dict[str, Any]:
        return {"name": "Sphere", "radius": radius_copy(self._radius), "slack": self._slack}

    def check_shape(self, shape: Sequence[int], name: str = "weight", copies: int = 1) -> None:
        rows = shape[0] if shape else 1
        if isinstance(self._radius, Tensor) and not broadcasts(self._radius.shape, (copies, rows)):
            replicas = f", or one of shape ({copies}, 1) for one a replica" if copies > 1 else ""
            raise ConstraintError(
                f"{label(name, shape)}: radius of shape {tuple(self._radius.shape)} does not fit "
                f"{rows} rows; give a number, or a tensor of shape ({rows},){replicas}."
            )

    def check_dtype(self, shape: Sequence[int], dtype: torch.dtype, name: str = "weight") -> None:
        check_range(self._radius, shape, dtype, name)

    def configuration_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        rows = shape[0] if shape else 1
        return rows, math.prod(shape[1:]) + int(self._slack)

    def degrees_of_freedom(self, shape: Sequence[int]) -> int:
        rows, n = self.configuration_shape(shape)
        return rows * (n - 1)

    def _r(self, like: Tensor, rows: slice = slice(None)) -> float | Tensor:
        """The radius, of some rows where each has its own."""
        if not isinstance(self._radius, Tensor):
            return self._radius
        r = self._radius.to(device=like.device, dtype=like.dtype).unsqueeze(-1)
        return r[..., rows, :] if r.dim() > 1 and r.shape[-2] > 1 else r

    @staticmethod
    def _rows(weight: Tensor) -> Tensor:
        """A stack of weights (copies, rows, ...) as (copies, rows, entries of a row)."""
        rows = weight.shape[1] if weight.dim() > 1 else 1
        return weight.reshape(weight.shape[0], rows, math.prod(weight.shape[2:]))

    def _norms(self, weight: Tensor) -> Tensor:
        """Norms of the rows relative to r, shape (copies, rows)."""
        rows = self._rows(weight)
        rows = rows if rows.device.type == "mps" else rows.double()  # which MPS does not have
        return (rows / self._r(rows)).square().sum(-1).sqrt()

    @property
    def smallest_length(self) -> float:
        return float(self._radius.min()) if isinstance(self._radius, Tensor) else self._radius

    def infeasibility(self, weight: Tensor) -> Tensor:
        excess = self._norms(weight) - 1
        return (excess.clamp_min(0) if self._slack else excess.abs()).amax(1)

    def start_tolerance(self, dtype: torch.dtype, shape: Sequence[int]) -> float:
        tolerance = super().start_tolerance(dtype, shape)
        if not self._slack:
            return tolerance
        # a sum of n squares, cascaded as torch's are, rounds 4 n^(1/4) times; here and in the step before
        return tolerance + 2 * math.sqrt(math.sqrt(math.prod(shape[1:]))) * torch.finfo(dtype).eps

    def explain(self, weight: Tensor) -> str:
        relative = self._norms(weight)
        norms = (relative.unsqueeze(-1) * self._r(relative)).squeeze(-1)
        largest = float(norms.max())
        words = radius_words(self._radius)
        if self._slack:
            return (
                f"{int((~(relative <= 1)).sum())} rows exceed radius={words} (largest norm "
                f"{largest:.4g}). Choose radius >= {rounded_up(largest)}, or pass init='nearest' to "
                "colangevin.constrain, which shrinks these rows to the radius."
            )
        return (
            f"row norms lie between {float(norms.min()):.4g} and {largest:.4g}, not at "
            f"radius={words}. Pass init='nearest' to colangevin.constrain, or to {self!r}.init_(weight): it "
            "rescales the rows."
        )

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        norms, rows = self._norms(weight), self._rows(weight)
        if self._slack:
            rows = torch.where((norms > 1).unsqueeze(-1), self.project(rows, rows), rows)
            return rows.reshape(weight.shape)
        if not bool((norms > 0).all()):
            bad = int((~(norms > 0)).sum())
            raise InfeasibleError(
                f"{label(name, weight.shape[1:])}: {bad} rows have norm 0, so they have no nearest point on "
                "the sphere. Initialise these rows at random first."
            )
        return self.project(rows, rows).reshape(weight.shape)

    def draw(self, weight: Tensor, name: str) -> Tensor:
        shape = self.configuration_shape(weight.shape[1:])
        q = torch.stack([copy.new_empty(shape).normal_() for copy in weight])
        return self.lower(self.project(q, q), weight.shape[1:])

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        rows = self._rows(weight)
        if not self._slack:
            return self.project(rows, rows)
        norm = self._norms(weight).unsqueeze(-1)
        xi = self._r(rows) * ((1 - norm).clamp_min(0) * (1 + norm)).sqrt().to(rows.dtype)
        if near is not None:
            xi = torch.copysign(xi, near[..., -1:])
        q = torch.cat((rows, xi), dim=-1)
        return self.project(q, q)

    def read(self, weight: Tensor) -> Tensor:
        return self._rows(weight)

    def lower(self, q: Tensor, shape: Sequence[int]) -> Tensor:
        rows = q[..., :-1] if self._slack else q
        return rows.reshape(q.shape[0], *shape)

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        rows = self._rows(grad)
        return torch.nn.functional.pad(rows, (0, 1)) if self._slack else rows  # dV/dxi = 0

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        p_new = torch.empty_like(p)
        for rows in _blocks(q):
            p_new[:, rows] = _tangent_alone(q[:, rows] / self._r(q, rows), p[:, rows])
        return p_new

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        q_new, p_new = torch.empty_like(q), torch.empty_like(p)
        for rows in _blocks(q):
            r = self._r(q, rows)
            s, u = _polar_form(p[:, rows])
            x = q[:, rows] / r  # of length 1 as u is, unless p = 0
            phi = (a * (s / r)).clamp_max(torch.finfo(p.dtype).max)
            cos, sin = phi.cos(), phi.sin()
            x_new = _normalise((cos * x).addcmul_(sin, u), x)
            q_new[:, rows] = r * x_new
            p_new[:, rows] = _tangent(x_new, (s * cos * u).addcmul_(s * sin, x, value=-1))
        return q_new, p_new

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        q_new = torch.empty_like(q)
        for rows in _blocks(q):
            r = self._r(q, rows)
            q_new[:, rows] = r * _normalise(q_bar[:, rows], q[:, rows] / r)
        return q_new

    def without_slack(self, q: Tensor) -> Tensor:
        return torch.nn.functional.pad(q[..., :-1], (0, 1)) if self._slack else q

    def curvature(self, q: Tensor) -> Tensor:
        return (1 - q.shape[-1]) * q / self._r(q) ** 2

    def tangent_trace(self, q: Tensor) -> Tensor:
        if not self._slack:
            return super().tangent_trace(q)
        return per_copy(q.shape[-1] - 2 + (q / self._r(q))[..., -1].square())

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        if self._slack and weight.dtype == q.dtype:
            q = torch.cat((self._rows(weight), q[..., -1:]), dim=-1)
        return ((q / self._r(q)).square().sum(-1) - 1).abs().amax(1)

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        inner = (q / self._r(q) * p).sum(-1).abs()
        return ratio(inner, torch.linalg.vector_norm(p, dim=-1)).amax(1)


def _blocks(q: Tensor) -> list[slice]:
    """Rows that are worked on together: on a CPU so many that what is in between stays in the cache."""
    copies, count, n = q.shape
    step = max(1, _BLOCK // max(1, copies * n) if q.device.type == "cpu" else count)
    return [slice(start, start + step) for start in range(0, count, step)]


def _tangent(x: Tensor, p: Tensor) -> Tensor:
    """What of p lies along the sphere at unit vectors x."""
    return torch.addcmul(p, x, (x * p).sum(-1, keepdim=True), value=-1)


def _tangent_alone(x: Tensor, p: Tensor) -> Tensor:
    """What of p lies along the sphere, also where p is normal but for its rounding."""
    left = _tangent(x, p)
    # rows of which little is left are projected again: of a large normal part the rounding stays behind
    while bool((again := _peak(p) > 2 * _peak(left)).any()):
        p, left = left, torch.where(again, _tangent(x, left), left)
    return left


def _normalise(x_bar: Tensor, x: Tensor) -> Tensor:
    """Scale to length 1; a row that fell on the centre has no direction and becomes x."""
    length, direction = _polar_form(x_bar)
    return torch.where(length > 0, direction, x)


def _peak(rows: Tensor) -> Tensor:
    """The largest absolute entry of each row."""
    return torch.maximum(rows.amax(-1, keepdim=True), -rows.amin(-1, keepdim=True))


def _polar_form(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Lengths and directions of rows; divided by its largest entry first, no row over- or underflows."""
    peak = _peak(rows)
    zero = peak <= torch.finfo(rows.dtype).tiny
    scaled = rows / peak.masked_fill(zero, 1)
    # not vector_norm, whose running sum drops what is small beside it: a long row would end beyond its bound
    norm = scaled.square().sum(-1, keepdim=True).sqrt()
    return (peak * norm).masked_fill(zero, 0), scaled.div_(norm.masked_fill(zero, math.inf))
