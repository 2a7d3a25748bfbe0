"""What a constraint promises: a manifold, its cotangent spaces, and moves that stay on it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin.autocast import full_precision
from colangevin.constraints.start import Init, start
from colangevin.errors import ConstraintError, label
from colangevin.sharded import refuse_sharded

__all__ = ["Constraint", "state_dtype"]

# Largest relative violation of an equality that counts as "on the manifold up to storage" when a run
# starts: weights that came through a checkpoint of the next lower precision pass, anything worse does not.
START_TOLERANCE = {
    torch.float64: 1e-5,
    torch.float32: 1e-3,
    torch.float16: 2e-2,
    torch.bfloat16: 1e-1,
}
# Of an inequality, in units of the dtype's rounding: it only has to survive being written down.
_BOUND_ULPS = 4.0

# Largest violation a step leaves, in units of the dtype's rounding: |Q^T Q - I| is 20 at 1024 x 256.
_SETTLED = 512.0


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """The precision that configurations and momenta of a weight are kept and computed in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


class Constraint(ABC):
    r"""A manifold :math:`\Sigma = \{q : g(q) = 0\}` that a weight is held on.

    A constraint is an immutable value: it compares by content and holds no weight. The weight it acts on
    determines a configuration ``q`` and a momentum ``p`` of the same shape; which coordinates they use is
    the constraint's own business (the circle uses angles). In every method below the tensors are
    *stacks*: dimension 0 counts independent copies of the weight, be they replicas of one parameter or
    parameters of one shape. Methods are pure; from a feasible pair (q, p) each returns a feasible one.
    """

    #: weights of one shape are stacked and moved in one batched call
    stacks: ClassVar[bool] = False
    #: a step may raise :class:`~colangevin.errors.ConvergenceError`
    fallible: ClassVar[bool] = False
    #: the weight alone does not determine q (there is slack), so q is part of the optimizer's state
    hidden: ClassVar[bool] = False

    # ---- what users call -------------------------------------------------------------------------

    @full_precision
    def violation(self, weight: Tensor, *, replicas: bool = False) -> float:
        """How far a weight is from the constraint, relative to its scale; 0 when it is satisfied.

        Args:
            weight: one weight, or a stack of them along dimension 0.
            replicas: whether ``weight`` is such a stack.

        Returns:
            The largest relative violation.

        Raises:
            ConstraintError: for a shard of a weight, or a weight that cannot carry the constraint.
        """
        stack = self.stacked(weight, replicas)
        return float(self.violations(stack).max()) if stack.numel() else 0.0

    @torch.no_grad()
    def init_(
        self, weight: Tensor, *, init: Init = "auto", replicas: bool = False, name: str = "weight"
    ) -> Tensor:
        """Put a weight onto the manifold in place; nothing changes when that raises.

        Args:
            weight: one weight, or a stack of them along dimension 0.
            init: ``"auto"`` keeps a feasible weight bit for bit and puts others onto the manifold, except
                under a bound (circles, spheres with slack, inequalities), where they raise. ``"keep"`` only
                checks. ``"nearest"`` moves an infeasible weight to the nearest feasible one. ``"draw"``
                replaces the weight by one drawn uniformly on the manifold.
            replicas: whether ``weight`` is such a stack.
            name: what to call it in an error.

        Returns:
            The same tensor.

        Raises:
            ConstraintError: when the weight cannot carry the constraint; InfeasibleError for its values.
        """
        placed = start(self, weight, init, replicas=replicas, name=name)
        if placed is not None:
            weight.copy_(placed)
        return weight

    def check(self, weight: Tensor, *, replicas: bool = False, name: str = "weight") -> None:
        """Raise unless a weight satisfies the constraint up to the rounding of a checkpoint.

        Args:
            weight: one weight, or a stack of them along dimension 0.
            replicas: whether ``weight`` is such a stack.
            name: what to call it in the error.

        Raises:
            ConstraintError: when the weight cannot carry the constraint; InfeasibleError for its values,
                naming the parameter, the excess and what to do.
        """
        start(self, weight, "keep", replicas=replicas, name=name)

    def stacked(self, weight: Tensor, replicas: bool, name: str = "weight") -> Tensor:
        """A weight in the state's dtype with the dimension that counts copies in front.

        Args:
            weight: one weight, or a stack of them along dimension 0.
            replicas: whether ``weight`` is such a stack.
            name: what to call it in an error.

        Returns:
            The stack.

        Raises:
            ConstraintError: for a shard, or a weight that cannot carry the constraint.
        """
        refuse_sharded(weight, name)
        if weight.dtype not in START_TOLERANCE:
            names = ", ".join(str(dtype).removeprefix("torch.") for dtype in START_TOLERANCE)
            raise ConstraintError(
                f"{label(name, weight.shape)}: dtype {weight.dtype} is not supported; use {names}."
            )
        self.check_stack(weight.shape, replicas, name)
        self.check_dtype(weight.shape, weight.dtype, name)
        stack = weight.detach() if replicas else weight.detach().unsqueeze(0)
        return stack.to(state_dtype(weight.dtype))

    # ---- words and shapes ------------------------------------------------------------------------

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The constraint as plain values and tensors, for a checkpoint."""

    def check_shape(self, shape: Sequence[int], name: str = "weight", copies: int = 1) -> None:
        """Raise :class:`ConstraintError` when a weight of this shape cannot carry the constraint."""
        return

    def check_stack(self, shape: Sequence[int], replicas: bool, name: str = "weight") -> None:
        """:meth:`check_shape` for one weight, or for a stack of them along dimension 0."""
        if replicas:
            self.check_shape(shape[1:], name, copies=shape[0])
        else:
            self.check_shape(shape, name)

    def check_dtype(self, shape: Sequence[int], dtype: torch.dtype, name: str = "weight") -> None:
        """Raise :class:`ConstraintError` when numbers of the constraint are beyond a weight's dtype."""
        return

    @abstractmethod
    def configuration_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of q for one weight of the given shape."""

    @abstractmethod
    def degrees_of_freedom(self, shape: Sequence[int]) -> int:
        """The dimension of the manifold for one weight of the given shape."""

    @abstractmethod
    def infeasibility(self, weight: Tensor) -> Tensor:
        """Largest relative violation of each weight of a stack, shape (copies,)."""

    def violations(self, weight: Tensor) -> Tensor:
        """What :meth:`violation` reports of each weight of a stack, shape (copies,)."""
        return self.infeasibility(weight)

    @abstractmethod
    def explain(self, weight: Tensor) -> str:
        """What is wrong with an infeasible stack of weights, and what to do about it."""

    @abstractmethod
    def nearest(self, weight: Tensor, name: str) -> Tensor:
        """The nearest feasible stack to a stack of finite weights.

        Args:
            weight: the stack, in the state's dtype.
            name: what to call it in an error.

        Returns:
            A stack of the same shape.
        """

    def draw(self, weight: Tensor, name: str) -> Tensor:
        """A stack like the given one, drawn uniformly on the manifold from torch's generator, copy by copy.

        Args:
            weight: what gives shape, dtype and device.
            name: what to call it in an error.

        Raises:
            ConstraintError: for a constraint that knows no such law.
        """
        raise ConstraintError(
            f"{label(name, weight.shape[1:])}: init='draw': {self!r} has no law to draw from. Use "
            "init='nearest', which moves the weight onto the constraint."
        )

    def start_tolerance(self, dtype: torch.dtype, shape: Sequence[int]) -> float:
        """Largest :meth:`violation` a weight of this shape may start with; the first step removes it."""
        return _BOUND_ULPS * torch.finfo(dtype).eps if self.hidden else START_TOLERANCE[dtype]

    @property
    def smallest_length(self) -> float:
        """The smallest length in the constraint: forces are divided by it."""
        return 1.0

    def keeps_position(self, dtype: torch.dtype) -> bool:
        """Whether q is stored: it has slack, or the weight's dtype is too coarse to hold it."""
        return self.hidden or dtype != state_dtype(dtype)

    def on(self, shape: Sequence[int]) -> "Constraint":
        """The constraint for weights of this shape; itself, unless its geometry depends on the shape."""
        return self

    # ---- between weights and configurations ------------------------------------------------------

    @abstractmethod
    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        """The configuration of a stack of weights, put exactly onto the manifold.

        Args:
            weight: feasible up to rounding, in the state's dtype.
            near: the configuration before the weights were changed from outside; tells the sign of slack.

        Returns:
            q, of :meth:`configuration_shape`.
        """

    def read(self, weight: Tensor) -> Tensor:
        """The configuration of weights this library wrote itself, when q is not stored."""
        return self.lift(weight)

    def settled(self, weight: Tensor) -> bool:
        """Whether a stack of weights is as near to the manifold as a step leaves it."""
        return bool(self.infeasibility(weight).max() <= _SETTLED * torch.finfo(weight.dtype).eps)

    @abstractmethod
    def lower(self, q: Tensor, shape: Sequence[int]) -> Tensor:
        """The stack of weights, each of the given shape, that a configuration stands for."""

    def reconcile(self, weight: Tensor, q: Tensor) -> Tensor:
        """The stored configuration, except where the weight was changed since it was stored.

        Args:
            weight: the stack of weights as they are now, in their own dtype.
            q: the configuration stored by the last step.

        Returns:
            q, of :meth:`configuration_shape`.
        """
        stored = self.lower(q, weight.shape[1:]).to(weight.dtype)
        same = (stored == weight).reshape(weight.shape[0], -1).all(1)
        if bool(same.all()):
            return q
        keep = same.view(-1, *[1] * (q.dim() - 1))
        return torch.where(keep, q, self.lift(weight.to(q.dtype), near=q))

    # ---- geometry --------------------------------------------------------------------------------

    @abstractmethod
    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        """The loss's gradient with respect to the weights, in the coordinates of q."""

    @abstractmethod
    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        r"""Orthogonal projection of a momentum onto the cotangent space, :math:`\Pi_q p`."""

    def kick(self, q: Tensor, p: Tensor, grad: Tensor, b: float) -> Tensor:
        """Letter B: the momentum after the gradient acted for time ``b``."""
        return self.tangent(q, plus(p, self.covector(q, grad), -b))

    @abstractmethod
    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        """Letter A: follow the geodesic of p for time ``a``."""

    def kick_drift(self, q: Tensor, p: Tensor, grad: Tensor, b: float, a: float) -> tuple[Tensor, Tensor]:
        """Letters B and A, one after the other; for constraints where both together cost less."""
        return self.drift(q, self.kick(q, p, grad, b), a)

    @abstractmethod
    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        """The point of the manifold that the paper's overdamped step makes of ``q_bar``, coming from q."""

    def euler(self, q: Tensor, grad: Tensor, h: float, sigma: float, noise: Tensor | None) -> Tensor:
        """Overdamped step: Euler-Maruyama, then projection."""
        q_bar = plus(q, self.covector(q, grad), -h)
        if noise is not None:
            q_bar = plus(q_bar, noise, sigma)
        return self.project(q, q_bar)

    def euler_noise_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the noise of one overdamped step, for one weight of the given shape."""
        return self.configuration_shape(shape)

    def white(self, q: Tensor, noise: Tensor) -> Tensor:
        """Unit white noise in the coordinates of p."""
        return noise

    # ---- what diagnostics read -------------------------------------------------------------------

    def virial(self, q: Tensor, force: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
        r"""Two numbers a copy whose averages have the temperature as their ratio.

        For a vector field F along the manifold integration by parts gives :math:`\langle F \cdot \nabla V
        \rangle = \tau \langle \mathrm{div} F \rangle`. Here F is the gradient along the manifold of
        :math:`\frac12 |w - a|^2`, the projection of w - a (0 in the directions of slack), whose divergence is
        the trace of the projection over the weight's own directions plus :math:`(w - a) \cdot \Delta_\Sigma
        q`.

        Args:
            q: where the weights are.
            force: the gradient there, as :meth:`covector` gives it.
            reference: the configuration of a, the same in all averages.

        Returns:
            :math:`F \cdot \nabla V` and :math:`\mathrm{div} F`, each of shape (copies,).
        """
        away = self.without_slack(q - reference)
        work = self.tangent(q, force) * away
        bending = self.curvature(q) * away
        return per_copy(work), self.tangent_trace(q) + per_copy(bending)

    def without_slack(self, q: Tensor) -> Tensor:
        """A configuration with 0 for its slack."""
        return q

    def curvature(self, q: Tensor) -> Tensor:
        r"""The mean curvature vector, :math:`\Delta_\Sigma q`; NaN for a constraint that does not say."""
        return torch.full_like(q, torch.nan)

    def tangent_trace(self, q: Tensor) -> Tensor:
        """The trace of the projection over the weight's directions: without slack, the dimension."""
        return q.new_full((q.shape[0],), self.degrees_of_freedom(q.shape[1:]))

    @abstractmethod
    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        """Largest relative |g(q)| of each copy, shape (copies,)."""

    @abstractmethod
    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        """Largest |J p| of each copy relative to the size of p, shape (copies,)."""

    def squared_norm(self, q: Tensor, p: Tensor) -> Tensor:
        """|p|^2 of each copy, shape (copies,)."""
        return per_copy(p.square())


def per_copy(x: Tensor) -> Tensor:
    """The sum of each copy's entries."""
    return x.reshape(x.shape[0], -1).sum(1)


def plus(x: Tensor, y: Tensor, scale: float) -> Tensor:
    """The sum x + scale y in one pass."""
    if torch.compiler.is_compiling():  # alpha would become a constant of the graph, and lr often changes
        return x + scale * y
    return torch.add(x, y, alpha=scale)


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether a tensor of one shape broadcasts to another."""
    return len(shape) <= len(to) and all(
        n in (1, m) for n, m in zip(reversed(shape), reversed(to), strict=False)
    )


def ratio(value: Tensor, size: Tensor) -> Tensor:
    """The quotient value / size, and 0 where both are 0."""
    return torch.where(size > 0, value / size.masked_fill(size <= 0, 1), value)


def same_value(one: object, other: object) -> bool:
    """Equality of plain values and tensors; dictionaries are compared where both have an entry."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same_value(one[key], other[key]) for key in one.keys() & other.keys())
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return (
            isinstance(one, Tensor)
            and isinstance(other, Tensor)
            and one.shape == other.shape
            and bool((one.cpu() == other.cpu()).all())
        )
    return bool(one == other)


def same_description(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two :meth:`Constraint.describe` results mean the same constraint."""
    # what a dictionary holds is optional, so that one that is missing says as little as an empty one
    return all(same_value(one.get(key, {}), other.get(key, {})) for key in one.keys() | other.keys())
