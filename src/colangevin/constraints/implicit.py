r"""General constraints: :math:`g(w) = 0`, or :math:`g(w) \le 0` with slack, for any differentiable g."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from colangevin.autocast import full_precision
from colangevin.constraints import newton
from colangevin.constraints.base import Constraint
from colangevin.constraints.fingerprint import fingerprint
from colangevin.errors import ConstraintError, ConvergenceError, label

__all__ = ["Implicit"]


@dataclass(frozen=True)
class Implicit(Constraint):
    r"""Hold a weight on the zero set of a function, or in the set where it is not positive.

    The configuration is the flattened weight, followed for an inequality by one slack a component of g,
    :math:`g(w) + \xi^2 = 0`. Momenta are projected with :math:`\Pi = I - J^T (J J^T)^{-1} J`; the overdamped
    step and letter A (RATTLE) solve for the multipliers (:mod:`colangevin.constraints.newton`). A step that
    cannot land raises :class:`~colangevin.errors.ConvergenceError` and changes nothing.

    Leimkuhler et al. 2021, appendix "Discretization of constrained (over-, under-)damped Langevin (general
    constraint)".

    Args:
        g: a differentiable torch function of one weight, in the weight's own shape, to a vector (or a tensor
            of any shape, which is flattened). Its components must be independent.
        inequality: whether g(w) <= 0 is meant rather than g(w) = 0.

    A checkpoint remembers g by its name, its bytecode and the numbers, strings, tensors and functions that it
    takes from its closure or its module; a state that was saved under another g is refused. It cannot compare
    what is inside of objects, lists and dictionaries or of functions written in C, nor bytecode of another
    version of Python: there the name decides.

    >>> Implicit(torch.trace)
    Implicit(g=torch.trace, inequality=False)
    """

    g: Callable[[Tensor], Tensor]
    inequality: bool = False
    #: of the weight, once known; see :meth:`on`
    shape: tuple[int, ...] | None = field(default=None, init=False, repr=False, compare=False)
    #: how many components g has for the shapes of weights seen so far
    counts: dict[tuple[int, ...], int] = field(default_factory=dict, init=False, repr=False, compare=False)

    fallible = True

    def __post_init__(self) -> None:
        if not callable(self.g):
            raise ConstraintError(f"g={self.g!r}: must be a function of the weight.")

    @property
    def hidden(self) -> bool:  # type: ignore[override]
        """The slack is not in the weight."""
        return self.inequality

    def __repr__(self) -> str:
        return f"Implicit(g={_name(self.g)}, inequality={self.inequality})"

    def describe(self) -> dict[str, Any]:
        return {
            "name": "Implicit",
            "g": _name(self.g),
            "inequality": self.inequality,
            "code": fingerprint(self.g),
        }

    def on(self, shape: Sequence[int]) -> "Implicit":
        bound = Implicit(self.g, self.inequality)
        object.__setattr__(bound, "shape", tuple(shape))
        object.__setattr__(bound, "counts", self.counts)
        return bound

    @full_precision
    def _values(self, weight: Tensor) -> Tensor:
        """The values of g for one weight, as a flat vector."""
        value = self.g(weight)
        if not isinstance(value, Tensor):
            raise ConstraintError(f"{self!r}: g returned {type(value).__name__}, not a tensor.")
        self.counts[tuple(weight.shape)] = value.numel()
        return value.reshape(-1)

    def _g(self, q: Tensor) -> Tensor:
        """The residual of one configuration: g(w), or g(w) + xi^2."""
        shape = self._bound_shape()
        n = math.prod(shape)
        value = self._values(q[:n].reshape(shape))
        return value + q[n:].square() if self.inequality else value

    def _bound_shape(self) -> tuple[int, ...]:
        if self.shape is None:
            raise ConstraintError(f"{self!r}: call on(shape) before using its geometry.")
        return self.shape

    def _components(self, shape: Sequence[int]) -> int:
        if tuple(shape) not in self.counts:
            self._values(torch.zeros(tuple(shape)))
        return self.counts[tuple(shape)]

    def configuration_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (math.prod(shape) + (self._components(shape) if self.inequality else 0),)

    def degrees_of_freedom(self, shape: Sequence[int]) -> int:
        return self.configuration_shape(shape)[0] - self._components(shape)

    def violations(self, weight: Tensor) -> Tensor:
        """The largest absolute value of g, or the largest positive one of an inequality, in g's own units.

        No scale is honest for every g: relative to how far g moves with the weight, the determinant of a
        badly conditioned matrix may be far off and look exact. Whether a weight may start is another
        question, which :meth:`check` answers: g must be small beside the sum of its derivatives times the
        largest entry of the weight, so that a weight which a checkpoint rounded passes.

        Args:
            weight: a stack of weights.

        Returns:
            Shape (copies,).
        """
        values = torch.stack([self._values(copy) for copy in weight])
        return (values.clamp_min(0) if self.inequality else values.abs()).amax(1)

    def infeasibility(self, weight: Tensor) -> Tensor:
        return torch.stack([self._relative(copy) for copy in weight])

    def _relative(self, weight: Tensor) -> Tensor:
        """Violation of one weight, relative to how far g moves when the weight moves by its own size."""
        value = self._values(weight)
        value = value.clamp_min(0) if self.inequality else value.abs()
        flat = weight.reshape(-1)
        J = newton.jacobian(lambda q: self._values(q.reshape(weight.shape)), flat)
        size = J.abs().sum(1) * flat.abs().max() + torch.finfo(flat.dtype).tiny
        return (value / size).max()

    def explain(self, weight: Tensor) -> str:
        values = torch.stack([self._values(copy) for copy in weight])
        violated = (
            f"largest component of g is {float(values.max()):.4g}, must be <= 0"
            if self.inequality
            else f"largest |g| is {float(values.abs().max()):.4g}"
        )
        return (
            f"{self!r} is violated ({violated}). Pass init='nearest' to colangevin.constrain, or to "
            "init_(weight) of the constraint: it moves the weight to where g = 0."
        )

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        shape = weight.shape[1:]
        try:
            return self.lower(self.on(shape).lift(weight), shape)
        except ConvergenceError as error:
            raise ConvergenceError(f"{label(name, shape)}: {error}") from None

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        flat = weight.reshape(weight.shape[0], -1)
        if self.inequality:
            xi = torch.stack([(-self._values(copy)).clamp_min(0).sqrt() for copy in weight])
            if near is not None:
                xi = torch.copysign(xi, near[:, flat.shape[1] :])
            flat = torch.cat((flat, xi), dim=1)
        return torch.stack([newton.land(self._g, q, q, repr(self))[0] for q in flat])

    def read(self, weight: Tensor) -> Tensor:
        return weight.reshape(weight.shape[0], -1)

    def lower(self, q: Tensor, shape: Sequence[int]) -> Tensor:
        return q[:, : math.prod(shape)].reshape(q.shape[0], *shape)

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        flat = grad.reshape(grad.shape[0], -1)
        return torch.nn.functional.pad(flat, (0, q.shape[1] - flat.shape[1]))  # dV/dxi = 0

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        pairs = zip(q, p, strict=True)
        return torch.stack(
            [newton.cotangent(newton.jacobian(self._g, qi), pi, repr(self)) for qi, pi in pairs]
        )

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        if a < torch.finfo(q.dtype).tiny:  # nothing moves, and 1/a would overflow
            return q, p
        q_new, pull = self._land(q, torch.add(q, p, alpha=a))
        return q_new, self.tangent(q_new, torch.add(p, pull, alpha=1 / a))

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        return self._land(q, q_bar)[0]

    def _land(self, q: Tensor, q_bar: Tensor) -> tuple[Tensor, Tensor]:
        pairs = zip(q, q_bar, strict=True)
        landed = [newton.land(self._g, qi, bar, repr(self)) for qi, bar in pairs]
        return torch.stack([q for q, _ in landed]), torch.stack([pull for _, pull in landed])

    def without_slack(self, q: Tensor) -> Tensor:
        n = math.prod(self._bound_shape())
        return torch.nn.functional.pad(q[:, :n], (0, q.shape[1] - n))

    def curvature(self, q: Tensor) -> Tensor:
        # -J^T (J J^T)^-1 tr(Π g''), with the second derivatives of every component of g
        vectors = []
        for copy in q:
            pinv, projection = self._projection(copy)
            second: Tensor = torch.func.jacrev(torch.func.jacrev(self._g))(copy)
            vectors.append(-pinv @ (second.detach() * projection).sum((1, 2)))
        return torch.stack(vectors)

    def tangent_trace(self, q: Tensor) -> Tensor:
        n = math.prod(self._bound_shape())
        return torch.stack([self._projection(copy)[1].diagonal()[:n].sum() for copy in q])

    def _projection(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """The pseudoinverse of J and the matrix Π, for one configuration."""
        J = newton.jacobian(self._g, q)
        pinv: Tensor = torch.linalg.pinv(J)
        return pinv, torch.eye(q.numel(), dtype=q.dtype, device=q.device) - pinv @ J

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        return torch.stack([self._g(copy).abs().max() for copy in q])

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        errors = []
        for qi, pi in zip(q, p, strict=True):
            J = newton.jacobian(self._g, qi)
            size = torch.linalg.vector_norm(J, dim=1) * torch.linalg.vector_norm(pi)
            errors.append(((J @ pi).abs() / (size + torch.finfo(pi.dtype).tiny)).max())
        return torch.stack(errors)


def _name(g: Callable[[Tensor], Tensor]) -> str:
    """A function's name as far as a checkpoint can know it."""
    module, name = getattr(g, "__module__", None), getattr(g, "__qualname__", type(g).__qualname__)
    return f"{module}.{name}" if module else str(name)
