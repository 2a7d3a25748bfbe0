r"""General constraints: $g(w) = 0$, or $g(w) \le 0$ with slack, for any differentiable g."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import newton
from colangevin.constraints.capabilities import EmbeddedCurvature
from colangevin.constraints.constraint import Constraint
from colangevin.constraints.fingerprint import fingerprint
from colangevin.constraints.manifold import Manifold
from colangevin.errors import ConstraintError, ConvergenceError, label
from colangevin.surroundings import full_precision

__all__ = ["Implicit"]


class ZeroSet(EmbeddedCurvature):
    """Where g = 0: the configuration is the flattened weight."""

    constraint: "Implicit"
    fallible = True

    @full_precision
    def _values(self, weight: Tensor) -> Tensor:
        """The values of g for one weight, as a flat vector."""
        value = self.constraint.g(weight)
        if not isinstance(value, Tensor):
            raise ConstraintError(f"{self.constraint!r}: g returned {type(value).__name__}, not a tensor.")
        self.constraint.counts[self.shape] = value.numel()
        return value.reshape(-1)

    def _g(self, q: Tensor) -> Tensor:
        """The residual of one configuration."""
        return self._values(q.reshape(self.shape))

    @property
    def components(self) -> int:
        """How many components g has."""
        if self.shape not in self.constraint.counts:
            self._values(torch.zeros(self.shape))
        return self.constraint.counts[self.shape]

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return (math.prod(self.shape),)

    @property
    def degrees_of_freedom(self) -> int:
        return self.configuration_shape[0] - self.components

    # ---- the weight and its vector ---------------------------------------------------------------

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        return self._landed(self.read(weight))

    def _landed(self, q: Tensor) -> Tensor:
        return torch.stack([newton.land(self._g, each, each, repr(self.constraint))[0] for each in q])

    def read(self, weight: Tensor) -> Tensor:
        return weight.reshape(weight.shape[0], -1)

    def lower(self, q: Tensor) -> Tensor:
        return q.reshape(q.shape[0], *self.shape)

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return grad.reshape(grad.shape[0], -1)

    # ---- moves -----------------------------------------------------------------------------------

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        what = repr(self.constraint)
        pairs = zip(q, p, strict=True)
        return torch.stack([newton.cotangent(newton.jacobian(self._g, qi), pi, what) for qi, pi in pairs])

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        if a < torch.finfo(q.dtype).tiny:  # nothing moves, and 1/a would overflow
            return q, p
        q_new, pull = self._land(q, torch.add(q, p, alpha=a))
        return q_new, self.tangent(q_new, torch.add(p, pull, alpha=1 / a))

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        return self._land(q, q_bar)[0]

    def _land(self, q: Tensor, q_bar: Tensor) -> tuple[Tensor, Tensor]:
        pairs = zip(q, q_bar, strict=True)
        landed = [newton.land(self._g, qi, bar, repr(self.constraint)) for qi, bar in pairs]
        return torch.stack([q for q, _ in landed]), torch.stack([pull for _, pull in landed])

    # ---- curvature -------------------------------------------------------------------------------

    def curvature(self, q: Tensor) -> Tensor:
        # -J^T (J J^T)^-1 tr(Π g''), with the second derivatives of every component of g
        vectors = []
        for copy in q:
            pinv, projection = self._projection(copy)
            second: Tensor = torch.func.jacrev(torch.func.jacrev(self._g))(copy)
            vectors.append(-pinv @ (second.detach() * projection).sum((1, 2)))
        return torch.stack(vectors)

    def tangent_trace(self, q: Tensor) -> Tensor:
        n = math.prod(self.shape)
        return torch.stack([self._projection(copy)[1].diagonal()[:n].sum() for copy in q])

    def _projection(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """The pseudoinverse of J and the matrix Π, for one configuration."""
        J = newton.jacobian(self._g, q)
        pinv: Tensor = torch.linalg.pinv(J)
        return pinv, torch.eye(q.numel(), dtype=q.dtype, device=q.device) - pinv @ J

    # ---- feasibility -----------------------------------------------------------------------------

    def _excess(self, weight: Tensor) -> Tensor:
        """How far each component of g is off for one weight."""
        return self._values(weight).abs()

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
        return torch.stack([self._excess(copy) for copy in weight]).amax(1)

    def infeasibility(self, weight: Tensor) -> Tensor:
        return torch.stack([self._relative(copy) for copy in weight])

    def _relative(self, weight: Tensor) -> Tensor:
        """Violation of one weight, relative to how far g moves when the weight moves by its own size."""
        flat = weight.reshape(-1)
        J = newton.jacobian(lambda q: self._values(q.reshape(weight.shape)), flat)
        size = J.abs().sum(1) * flat.abs().max() + torch.finfo(flat.dtype).tiny
        return (self._excess(weight) / size).max()

    def explain(self, weight: Tensor) -> str:
        return (
            f"{self.constraint!r} is violated ({self._violated(weight)}). Pass init='nearest' to "
            "colangevin.constrain, or to init_(weight) of the constraint: it moves the weight to where g = 0."
        )

    def _violated(self, weight: Tensor) -> str:
        return f"largest |g| is {float(self.violations(weight).max()):.4g}"

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        try:
            return self.lower(self.lift(weight))
        except ConvergenceError as error:
            raise ConvergenceError(f"{label(name, self.shape)}: {error}") from None

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        return torch.stack([self._g(copy).abs().max() for copy in q])

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        errors = []
        for qi, pi in zip(q, p, strict=True):
            J = newton.jacobian(self._g, qi)
            size = torch.linalg.vector_norm(J, dim=1) * torch.linalg.vector_norm(pi)
            errors.append(((J @ pi).abs() / (size + torch.finfo(pi.dtype).tiny)).max())
        return torch.stack(errors)


class SublevelSet(ZeroSet):
    r"""Where $g \le 0$: $g(w) + \xi^2 = 0$, one slack a component behind the weight."""

    hidden = True
    bounded = True

    def _g(self, q: Tensor) -> Tensor:
        n = math.prod(self.shape)
        return self._values(q[:n].reshape(self.shape)) + q[n:].square()

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return (math.prod(self.shape) + self.components,)

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        flat = self.read(weight)
        xi = torch.stack([(-self._values(copy)).clamp_min(0).sqrt() for copy in weight])
        if near is not None:
            xi = torch.copysign(xi, near[:, flat.shape[1] :])
        return self._landed(torch.cat((flat, xi), dim=1))

    def lower(self, q: Tensor) -> Tensor:
        return super().lower(q[:, : math.prod(self.shape)])

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return torch.nn.functional.pad(super().covector(q, grad), (0, self.components))  # dV/dxi = 0

    def without_slack(self, q: Tensor) -> Tensor:
        return torch.nn.functional.pad(q[:, : math.prod(self.shape)], (0, self.components))

    def _excess(self, weight: Tensor) -> Tensor:
        return self._values(weight).clamp_min(0)

    def _violated(self, weight: Tensor) -> str:
        largest = max(float(self._values(copy).max()) for copy in weight)
        return f"largest component of g is {largest:.4g}, must be <= 0"


@dataclass(frozen=True)
class Implicit(Constraint):
    r"""Your own constraint as a function of the weight: $g(w) = 0$, or $g(w) \le 0$ for an inequality.

    Choose it for what no other constraint here says: those have closed forms, which are faster. A step takes
    the Jacobian of g and solves for as many multipliers as g has components, so keep these few.

    The configuration is the flattened weight, followed for an inequality by one slack a component of g,
    $g(w) + \xi^2 = 0$. Momenta are projected with $\Pi = I - J^T (J J^T)^{-1} J$; the overdamped step and
    letter A (RATTLE) solve for the multipliers (`colangevin.constraints.newton`). A step that cannot land
    raises `ConvergenceError` and changes nothing.

    A checkpoint remembers g by its name, its bytecode and the numbers, strings, tensors and functions that it
    takes from its closure or its module; a state that was saved under another g is refused. It cannot compare
    what is inside of objects, lists and dictionaries or of functions written in C, nor bytecode of another
    version of Python: there the name decides.

    Leimkuhler et al. 2021, appendix "Discretization of constrained (over-, under-)damped Langevin (general
    constraint)".

    Args:
        g: a differentiable torch function of one weight, in the weight's own shape, to a vector (or a tensor
            of any shape, which is flattened). Its components must be independent.
        inequality: whether g(w) <= 0 is meant rather than g(w) = 0.

    Examples:
        >>> def zero_mean(w):
        ...     return w.mean(dim=1)
        >>> model = nn.Linear(3, 2)
        >>> groups = cl.constrain(model, {"weight": cl.Implicit(zero_mean)})
        >>> bool(model.weight.mean(dim=1).abs().max() < 1e-6)
        True
        >>> cl.Implicit(torch.det, inequality=True)
        Implicit(g=...det, inequality=True)
    """

    g: Callable[[Tensor], Tensor]
    inequality: bool = False
    #: how many components g has for the shapes of weights seen so far
    counts: dict[tuple[int, ...], int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not callable(self.g):
            raise ConstraintError(f"g={self.g!r}: must be a function of the weight.")

    def __repr__(self) -> str:
        return f"Implicit(g={_name(self.g)}, inequality={self.inequality})"

    def on(self, shape: Sequence[int]) -> Manifold:
        return (SublevelSet if self.inequality else ZeroSet)(self, tuple(shape))

    def describe(self) -> dict[str, Any]:
        return {
            "name": "Implicit",
            "g": _name(self.g),
            "inequality": self.inequality,
            "code": fingerprint(self.g),
        }


def _name(g: Callable[[Tensor], Tensor]) -> str:
    """A function's name as far as a checkpoint can know it."""
    module, name = getattr(g, "__module__", None), getattr(g, "__qualname__", type(g).__qualname__)
    return f"{module}.{name}" if module else str(name)
