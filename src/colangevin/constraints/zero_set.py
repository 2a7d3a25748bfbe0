"""Where a general constraint holds: the manifold of its equations, with slack for its bounds."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from colangevin.constraints import newton
from colangevin.constraints.capabilities import EmbeddedCurvature
from colangevin.constraints.dtypes import START_TOLERANCE
from colangevin.constraints.linear import Linear
from colangevin.constraints.parts import Parts
from colangevin.constraints.residual import Residual
from colangevin.constraints.stacks import largest_per_copy, plus
from colangevin.errors import ConvergenceError, label

if TYPE_CHECKING:
    from colangevin.constraints.implicit import Implicit

__all__ = ["ZeroSet"]

# Second derivatives of so many numbers are held at once: 32 MiB in float64.
_SECOND = 2**22


class ZeroSet(EmbeddedCurvature):
    """Where g = 0 and c <= 0, in every part of the weight.

    The configuration is the flattened weight. With slack it is every part, followed by its slack.
    """

    constraint: "Implicit"
    fallible = True

    def __init__(self, constraint: "Implicit", shape: tuple[int, ...]) -> None:
        super().__init__(constraint, shape)
        self.parts = Parts(constraint.over, shape)
        self.system = Residual(
            self._components_of, self.parts.size, batched=constraint.over != "weight", name=repr(constraint)
        )
        if constraint.over in ("rows", "entries"):
            self.independent = constraint.over
        self.hidden = self.bounded = constraint.has_bounds

    def _components_of(self, part: Tensor) -> Tensor:
        """The components for one flat part: equations, then bounds."""
        found = self.constraint.values(part.reshape(self.parts.shape_of_one))
        self.constraint.counts[self.parts.shape_of_one] = tuple(len(each) for each in found)
        return torch.cat(found) if len(found) > 1 else found[0]

    def _counts(self, like: Tensor | None = None) -> tuple[int, ...]:
        """How many components each function has, asked with zeros if no part has been seen yet."""
        shape = self.parts.shape_of_one
        if shape not in self.constraint.counts:
            self.system.values(torch.zeros(1, self.parts.size) if like is None else like)
        return self.constraint.counts[shape]

    @property
    def components(self) -> int:
        """How many components there are for a part."""
        return sum(self._counts())

    @property
    def slack(self) -> int:
        """How many of the components for a part have slack: the last ones."""
        return self._counts()[-1] if self.constraint.has_bounds else 0

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        if not self.constraint.has_bounds:
            return (math.prod(self.shape),)
        size = self.parts.size + self.slack
        if self.constraint.over == "entries":
            return (*self.shape, size)
        return (size,) if self.constraint.over == "weight" else (self.parts.count, size)

    @property
    def degrees_of_freedom(self) -> int:
        return math.prod(self.configuration_shape) - self.parts.count * self.components

    # ---- the weight and its parts ----------------------------------------------------------------

    def _split(self, q: Tensor) -> Tensor:
        """The configurations of parts, one below the other, of a stack of configurations."""
        if not self.constraint.has_bounds:
            return self.parts.split(q.reshape(-1, *self.shape))
        return q.reshape(q.shape[0] * self.parts.count, -1)

    def _join(self, parts: Tensor) -> Tensor:
        if not self.constraint.has_bounds:
            return self.parts.join(parts).reshape(-1, math.prod(self.shape))
        return parts.reshape(-1, *self.configuration_shape)

    def _batches(self, *stacks: Tensor) -> list[tuple[Tensor, ...]]:
        """The parts that are solved for together: all of them, or one weight, whose g is not batched."""
        split = [self._split(stack) for stack in stacks]
        self._counts(like=split[0][:1, : self.parts.size])
        if self.system.batched:
            return [tuple(split)]
        return list(zip(*(each.split(1) for each in split), strict=True))

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        parts = self.parts.split(weight)
        if self.constraint.has_bounds:
            value = self._values(parts)
            value = value[:, value.shape[1] - self.slack :]
            # at its bound a part has the slack that rounding may have taken: at 0 it would never leave it
            least = torch.finfo(value.dtype).eps * self._scale(parts)[:, -self.slack :]
            xi = torch.maximum(-value, least).sqrt()
            if near is not None:
                xi = torch.copysign(xi, self._split(near)[:, self.parts.size :])
            parts = torch.cat((parts, xi), dim=1)
        q = self._join(parts)
        return self.project(q, q)

    def read(self, weight: Tensor) -> Tensor:
        return weight.reshape(weight.shape[0], -1)

    def lower(self, q: Tensor) -> Tensor:
        return self.parts.join(self._split(q)[:, : self.parts.size])

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return self._join(torch.nn.functional.pad(self.parts.split(grad), (0, self.slack)))  # dV/dxi = 0

    def without_slack(self, q: Tensor) -> Tensor:
        kept = self._split(q)[:, : self.parts.size]
        return self._join(torch.nn.functional.pad(kept, (0, self.slack)))

    def _values(self, parts: Tensor) -> Tensor:
        """The components for parts without slack, shape (parts, components)."""
        batches = (parts,) if self.system.batched else parts.split(1)
        return torch.cat([self.system.values(batch) for batch in batches])

    # ---- moves -----------------------------------------------------------------------------------

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        return self._join(
            torch.cat(
                [newton.cotangent(self, newton.linear(self, qi), qi, pi) for qi, pi in self._batches(q, p)]
            )
        )

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        moved = [self._drift(newton.linear(self, qi), qi, pi, a) for qi, pi in self._batches(q, p)]
        return self._joined(moved)

    def kick_drift(self, q: Tensor, p: Tensor, grad: Tensor, b: float, a: float) -> tuple[Tensor, Tensor]:
        moved = []
        for qi, kicked in self._batches(q, plus(p, self.covector(q, grad), -b)):
            at = newton.linear(self, qi)  # one derivative for both letters
            moved.append(self._drift(at, qi, newton.cotangent(self, at, qi, kicked), a))
        return self._joined(moved)

    def _drift(self, at: Linear, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        """RATTLE for parts."""
        if a < torch.finfo(q.dtype).tiny:  # nothing moves, and 1/a would overflow
            return q, p
        q_new, pull = newton.land(self, at, q, plus(q, p, a))
        return q_new, newton.cotangent(self, newton.linear(self, q_new), q_new, plus(p, pull, 1 / a))

    def _joined(self, moved: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        q, p = (torch.cat(each) if len(moved) > 1 else each[0] for each in zip(*moved, strict=True))
        return self._join(q), self._join(p)

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        pairs = self._batches(q, q_bar)
        landed = [newton.land(self, newton.linear(self, qi), qi, bar)[0] for qi, bar in pairs]
        return self._join(torch.cat(landed))

    # ---- curvature -------------------------------------------------------------------------------

    def curvature(self, q: Tensor) -> Tensor:
        return self._join(self._each_part(self._curvature, q))

    def tangent_trace(self, q: Tensor) -> Tensor:
        n = self.parts.size
        traces = self._each_part(lambda part: self._projection(part)[1].diagonal()[:n].sum(), q)
        return traces.reshape(q.shape[0], -1).sum(1)

    def _each_part(self, function: Callable[[Tensor], Tensor], q: Tensor) -> Tensor:
        """A function of one part of q with its slack, for all of them."""
        parts = self._split(q)
        if not self.system.batched:
            return torch.stack([function(part) for part in parts])
        chunk = max(1, _SECOND // (self.components * parts.shape[1] ** 2))
        found: Tensor = torch.func.vmap(function, chunk_size=chunk)(parts)
        return found

    def _residual_of(self, part: Tensor) -> Tensor:
        """The residual of one part with its slack, for automatic differentiation."""
        value = self._components_of(part[: self.parts.size])
        xi = part[self.parts.size :]
        return value + torch.nn.functional.pad(xi.square(), (len(value) - len(xi), 0)) if len(xi) else value

    def _curvature(self, part: Tensor) -> Tensor:
        # -J^T (J J^T)^-1 tr(Π g''), with the second derivatives of every component of g
        pinv, projection = self._projection(part)
        second: Tensor = torch.func.jacrev(torch.func.jacrev(self._residual_of))(part)
        return -pinv @ (second.detach() * projection).sum((1, 2))

    def _projection(self, part: Tensor) -> tuple[Tensor, Tensor]:
        """The pseudoinverse of J and the matrix Π, for one part."""
        J = torch.func.jacrev(self._residual_of)(part).detach()
        pinv: Tensor = torch.linalg.pinv(J)
        return pinv, torch.eye(part.numel(), dtype=part.dtype, device=part.device) - pinv @ J

    # ---- feasibility -----------------------------------------------------------------------------

    def _excess(self, parts: Tensor) -> Tensor:
        """How far each component is off for parts without slack."""
        value = self._values(parts)
        equations = value.shape[1] - self.slack
        return torch.cat((value[:, :equations].abs(), value[:, equations:].clamp_min(0)), 1)

    def violations(self, weight: Tensor) -> Tensor:
        """The largest absolute value of g, or the largest positive one of an inequality, in g's own units.

        No scale is honest for every g: relative to how far g moves with the weight, the determinant of a
        badly conditioned matrix may be far off and look exact. Whether a weight may start is another
        question, which `infeasibility` answers: g must be small beside the sum of its derivatives times the
        largest entry of the weight, so that a weight which a checkpoint rounded passes.

        Args:
            weight: a stack of weights.

        Returns:
            Shape (copies,).
        """
        return largest_per_copy(self._excess(self.parts.split(weight)).reshape(weight.shape[0], -1))

    def infeasibility(self, weight: Tensor) -> Tensor:
        return largest_per_copy(self._relative(weight).reshape(weight.shape[0], -1))

    def _relative(self, weight: Tensor) -> Tensor:
        """The excess of each component, relative to its scale."""
        parts = self.parts.split(weight)
        return self._excess(parts) / (self._scale(parts) + torch.finfo(weight.dtype).tiny)

    def _scale(self, parts: Tensor) -> Tensor:
        """How far each component moves when its part moves by its own size."""
        batches = (parts,) if self.system.batched else parts.split(1)
        return torch.cat([self.system.linear(batch, self.components).scale for batch in batches])

    def start_tolerance(self, dtype: torch.dtype) -> float:
        # a weight that was written down is on its bound, but off its equations by rounding
        only_bounds = self.constraint.inequality
        return super().start_tolerance(dtype) if only_bounds else START_TOLERANCE[dtype]

    def explain(self, weight: Tensor) -> str:
        relative = self._relative(weight)
        part = int(relative.amax(1).nan_to_num(nan=torch.inf).argmax())
        values = self._values(self.parts.split(weight)[part : part + 1])[0]
        index = int(relative[part].nan_to_num(nan=torch.inf).argmax())
        rule = "must be <= 0" if index >= len(values) - self.slack else "must be 0"
        return (
            f"{self.constraint!r} is violated ({self._named(part, index, values)}, {rule}; that is "
            f"{float(relative[part, index]):.3g} of how far it moves with the weight). Pass init='nearest' "
            "to colangevin.constrain, or to init_(weight) of the constraint: it moves the weight to where "
            "g = 0."
        )

    def __str__(self) -> str:
        return repr(self.constraint)

    def component(self, part: int, values: Tensor) -> str:
        """The component of a part that is furthest off, in words."""
        return self._named(part, int(values.abs().nan_to_num(nan=torch.inf).argmax()), values)

    def _named(self, part: int, index: int, values: Tensor) -> str:
        """A component of a part with its value: ``unit_determinant(w)[0] = 0.17``."""
        name, number = self.constraint.component_name(index, self._counts())
        return f"{name}({self.parts.name(part % self.parts.count)})[{number}] = {float(values[index]):.4g}"

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        try:
            return self.lower(self.lift(weight))
        except ConvergenceError as error:
            raise ConvergenceError(f"{label(name, self.shape)}: {error}") from None

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        values = torch.cat([self.system.values(qi) for (qi,) in self._batches(q)])
        return largest_per_copy(values.abs().reshape(q.shape[0], -1))

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        errors = []
        size = torch.linalg.vector_norm(p.reshape(p.shape[0], -1), dim=1).repeat_interleave(self.parts.count)
        for qi, pi in self._batches(q, p):
            at = self.system.linear(qi, self.components)
            errors.append(at.push(pi).abs() / (at.norms + torch.finfo(pi.dtype).tiny))
        relative = torch.cat(errors) / (size.unsqueeze(1) + torch.finfo(p.dtype).tiny)
        return largest_per_copy(relative.reshape(q.shape[0], -1))
