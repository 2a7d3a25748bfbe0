"""A manifold: a constraint on weights of one shape, with its cotangent spaces and moves that stay on it."""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from colangevin.constraints.dtypes import START_TOLERANCE, state_dtype
from colangevin.constraints.forms import Form
from colangevin.constraints.stacks import largest_per_copy, per_copy, plus, ratio
from colangevin.errors import ConstraintError, label

if TYPE_CHECKING:
    from colangevin.constraints.constraint import Constraint

__all__ = ["Manifold"]

# Largest violation of an inequality at the start, in units of the dtype's rounding: a feasible weight only
# has to survive being written down.
_BOUND_ULPS = 4.0


class Manifold(ABC):
    r"""The geometry of a constraint on weights of one shape: subclass it for a constraint in closed form.

    It stands for the set $\Sigma = \{q : g(q) = 0\}$. A weight determines a configuration `q`, and q has a
    momentum `p` of the same shape. Which coordinates they use is the manifold's own business: circles use
    angles. In every method the tensors are *stacks*: dimension 0 counts independent copies of the weight,
    replicas of one parameter or parameters of one shape. Methods are pure. From a feasible pair (q, p) each
    returns a feasible one.

    A subclass has to give eight members: `configuration_shape`, `degrees_of_freedom`, `infeasibility`,
    `lift`, `lower`, `tangent`, `drift` and `project`. Everything else follows from them, slowly; a subclass
    overrides what it can say better. What a subclass may add is in `colangevin.constraints.capabilities`.

    Args:
        constraint: what holds the weights.
        shape: of one weight.

    Examples:
        >>> from dataclasses import dataclass
        >>> class SymmetricMatrices(cl.constraints.Manifold):
        ...     @property
        ...     def configuration_shape(self):
        ...         return self.shape
        ...
        ...     @property
        ...     def degrees_of_freedom(self):
        ...         return self.shape[0] * (self.shape[0] + 1) // 2
        ...
        ...     def infeasibility(self, weight):
        ...         return (weight - weight.mT).abs().amax((1, 2))
        ...
        ...     def lift(self, weight, near=None):
        ...         return (weight + weight.mT) / 2
        ...
        ...     def lower(self, q):
        ...         return q
        ...
        ...     def tangent(self, q, p):
        ...         return (p + p.mT) / 2
        ...
        ...     def drift(self, q, p, a):
        ...         return q + a * p, p
        ...
        ...     def project(self, q, q_bar):
        ...         return (q_bar + q_bar.mT) / 2
        >>> @dataclass(frozen=True)
        ... class Symmetric(cl.Constraint):
        ...     manifold = SymmetricMatrices
        >>> model = nn.Linear(4, 4)
        >>> optimizer = cl.ConstrainedSGD(cl.constrain(model, {"weight": Symmetric()}), 0.1, 0.9)
        >>> model(torch.ones(1, 4)).sum().backward()
        >>> optimizer.step()
        >>> torch.allclose(model.weight, model.weight.T)
        True
    """

    #: weights of one shape are stacked and moved in one batched call
    stacks: bool = False
    #: a step may raise `ConvergenceError`
    fallible: bool = False
    #: the weight alone does not determine q, so q is part of the optimizer's state
    hidden: bool = False
    #: the constraint is an inequality, whose bound is the user's to choose: no weight is moved to it unasked
    bounded: bool = False
    #: every weight is feasible
    free: bool = False
    #: weights have a size of their own, so that Muon's rate is an angle and does not depend on their shape
    turns: bool = False
    #: entries of q, if it has as many as the weight, come in the weight's order
    ordered: bool = True
    #: what of a weight moves without the rest of it; None: nothing smaller than the weight
    independent: Literal["entries", "rows"] | None = None

    def __init__(self, constraint: "Constraint", shape: tuple[int, ...]) -> None:
        self.constraint = constraint
        self.shape = shape

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # a form stands for the methods of the class that gives it, and so does what moves alone; those of a
        # subclass may differ
        if "form" not in vars(cls):
            cls.form = Manifold.form  # type: ignore[method-assign]
        if "independent" not in vars(cls):
            cls.independent = None

    def stopped(self, q: Tensor, dtype: torch.dtype) -> Tensor:
        """Configurations whose weights are finite numbers of a dtype: these, or those where a step stops.

        Args:
            q: where a step led.
            dtype: of the weight.

        Returns:
            The configurations.
        """
        return q

    # ---- the core: what every manifold has to say ------------------------------------------------

    @property
    @abstractmethod
    def configuration_shape(self) -> tuple[int, ...]:
        """The shape of q for one weight."""

    @property
    @abstractmethod
    def degrees_of_freedom(self) -> int:
        """The dimension of the manifold."""

    @abstractmethod
    def infeasibility(self, weight: Tensor) -> Tensor:
        """Largest relative violation of each weight of a stack, shape (copies,)."""

    @abstractmethod
    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        """The configuration of a stack of weights, put exactly onto the manifold.

        Args:
            weight: in the state's dtype; feasible up to rounding, or any finite one to find the nearest.
            near: the configuration before the weights were changed from outside; tells the sign of slack.

        Returns:
            q, of shape (copies, *configuration_shape).
        """

    @abstractmethod
    def lower(self, q: Tensor) -> Tensor:
        """The stack of weights that a configuration stands for."""

    @abstractmethod
    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        r"""Orthogonal projection of a momentum onto the cotangent space, $\Pi_q p$."""

    @abstractmethod
    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        """Letter A: follow the geodesic of p for time `a`."""

    @abstractmethod
    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        """The point of the manifold that the paper's overdamped step makes of `q_bar`, coming from q."""

    # ---- coordinates -----------------------------------------------------------------------------

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        """The loss's gradient with respect to the weights, in the coordinates of q."""
        pulled: Tensor = torch.func.vjp(self.lower, q)[1](grad)[0]
        return pulled.detach()

    def white(self, q: Tensor, noise: Tensor) -> Tensor:
        """Unit white noise in the coordinates of p."""
        return noise

    def lengths(self, q: Tensor, p: Tensor) -> Tensor:
        """A momentum in units of length, entry by entry: the inverse of `white`."""
        return p

    def squared_norm(self, q: Tensor, p: Tensor) -> Tensor:
        """|p|^2 of each copy, shape (copies,)."""
        return per_copy(p.square())

    @property
    def smallest_length(self) -> float:
        """The smallest length in the constraint: forces are divided by it."""
        return 1.0

    @property
    def form(self) -> Form | None:
        """The form by which a fast path knows the manifold; None: it takes the path that always works."""
        return None

    # ---- steps -----------------------------------------------------------------------------------

    def kick_drift(self, q: Tensor, p: Tensor, grad: Tensor, b: float, a: float) -> tuple[Tensor, Tensor]:
        """Letters B and A, one after the other; for manifolds where both together cost less."""
        return self.drift(q, self.tangent(q, plus(p, self.covector(q, grad), -b)), a)

    def euler(self, q: Tensor, grad: Tensor, h: float, sigma: float, noise: Tensor | None) -> Tensor:
        """Overdamped step: Euler-Maruyama, then projection."""
        q_bar = plus(q, self.covector(q, grad), -h)
        if noise is not None:
            q_bar = plus(q_bar, noise, sigma)
        return self.project(q, q_bar)

    @property
    def euler_noise_shape(self) -> tuple[int, ...]:
        """The shape of the noise of one overdamped step, for one weight."""
        return self.configuration_shape

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """The shape of the matrices that `steepest` orthogonalises."""
        return self.shape[0], math.prod(self.shape[1:])

    def steepest(self, q: Tensor, p: Tensor, orthogonalised: Callable[[Tensor], Tensor]) -> Tensor:
        """The direction that Muon moves a matrix along, in the coordinates of p; it need not be tangent.

        Args:
            q: the configurations.
            p: averaged gradients.
            orthogonalised: brings the singular values of a stack of matrices near 1.

        Returns:
            The directions.
        """
        if self.ordered and math.prod(q.shape[1:]) == math.prod(self.shape):
            matrices = self.lengths(q, p).reshape(len(q), self.shape[0], -1)
            return self.white(q, orthogonalised(matrices).reshape(q.shape))
        # slack has no place in the matrix: the projection onto the tangent space moves it
        pull = functools.partial(self.covector, q)
        weights = self.outputs_first(torch.func.vjp(pull, torch.zeros_like(self.lower(q)))[1](p)[0].detach())
        return pull(self.outputs_first(orthogonalised(weights.flatten(2)).view_as(weights)))

    def outputs_first(self, stack: Tensor) -> Tensor:
        """A stack of weights with outputs along their dimension 0; doing it twice gives the same stack."""
        return stack

    # ---- from weights and back -------------------------------------------------------------------

    def stored(self, dtype: torch.dtype) -> bool:
        """Whether q is kept in the state: the weight does not determine it, or is too coarse to hold it."""
        return self.hidden or dtype != state_dtype(dtype)

    def read(self, weight: Tensor) -> Tensor:
        """The configuration of weights that a step wrote, when q is not stored."""
        return self.lift(weight)

    def reconcile(self, weight: Tensor, q: Tensor) -> Tensor:
        """The stored configuration, except where the weight was changed since it was stored.

        Args:
            weight: the stack of weights as they are now, in their own dtype.
            q: the configuration stored by the last step.

        Returns:
            q, of shape (copies, *configuration_shape).
        """
        same = self.unchanged(weight, q)
        if bool(same.all()):
            return q
        keep = same.view(-1, *[1] * (q.dim() - 1))
        return torch.where(keep, q, self.lift(weight.to(q.dtype), near=q))

    def unchanged(self, weight: Tensor, q: Tensor) -> Tensor:
        """For each weight of a stack whether it is the one that its stored configuration stands for."""
        return (self.lower(q).to(weight.dtype) == weight).reshape(weight.shape[0], -1).all(1)

    # ---- how a weight starts ---------------------------------------------------------------------

    def start_tolerance(self, dtype: torch.dtype) -> float:
        """Largest `infeasibility` a weight may start with; the first step removes it."""
        return _BOUND_ULPS * torch.finfo(dtype).eps if self.bounded else START_TOLERANCE[dtype]

    def explain(self, weight: Tensor) -> str:
        """What is wrong with an infeasible stack of weights, and what to do about it."""
        error = float(self.infeasibility(weight).max())
        return (
            f"{self.constraint!r} is violated (by {error:.3g}, relative to its scale). Pass init='nearest' "
            "to colangevin.constrain, or to init_(weight) of the constraint: it moves the weight onto it."
        )

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        """The nearest feasible stack to a stack of finite weights.

        Args:
            weight: the stack, in the state's dtype.
            name: what to call it in an error.

        Returns:
            A stack of the same shape.
        """
        return self.lower(self.lift(weight))

    def draw(self, weight: Tensor, name: str) -> Tensor:
        """A stack like the given one, drawn uniformly on the manifold from torch's generator, copy by copy.

        Args:
            weight: what gives shape, dtype and device.
            name: what to call it in an error.

        Raises:
            ConstraintError: for a manifold that knows no such law.
        """
        raise ConstraintError(
            f"{label(name, self.shape)}: init='draw': {self.constraint!r} has no law to draw from. Use "
            "init='nearest', which moves the weight onto the constraint."
        )

    def at_rest(self, weight: Tensor) -> int:
        """How many entries sit where the gradient has no tangential part, so that only noise moves them."""
        return 0

    # ---- what diagnostics read -------------------------------------------------------------------

    def violations(self, weight: Tensor) -> Tensor:
        """What is reported as the violation of each weight of a stack, shape (copies,)."""
        return self.infeasibility(weight)

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        """Largest relative |g(q)| of each copy, shape (copies,)."""
        return self.infeasibility(self.lower(q))

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        """Largest |J p| of each copy relative to the size of p, shape (copies,)."""
        normal = (p - self.tangent(q, p)).abs()
        return ratio(largest_per_copy(normal), largest_per_copy(p.abs()))
