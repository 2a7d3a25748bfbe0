"""A constraint: an immutable value that says which manifold weights are held on."""

import dataclasses
from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin.constraints.description import same_description
from colangevin.constraints.dtypes import check_dtype, state_dtype
from colangevin.constraints.manifold import Manifold
from colangevin.constraints.start import Init, chosen, start
from colangevin.draws import drawn_alike
from colangevin.errors import ConstraintError, label
from colangevin.sharded import refuse_sharded, whole, write_
from colangevin.surroundings import full_precision

__all__ = ["Constraint"]


class Constraint(ABC):
    r"""What weights are held on, whatever their shape: the base of all constraints, and of your own.

    Use its methods to check a weight, to measure how far it is off, or to put it onto the manifold without an
    optimizer. A constraint compares by content and holds no weight. On weights of one shape it is a
    `Manifold`, which has the geometry. A subclass names the class of its manifolds. If it is a frozen
    dataclass of numbers, strings and tensors, that is all it has to say.

    Examples:
        >>> constraint = cl.Sphere(1.0, slack=False)
        >>> weight = torch.tensor([[3.0, 4.0], [0.6, 0.8]])
        >>> round(constraint.violation(weight), 3)
        4.0
        >>> constraint.init_(weight)
        tensor([[0.6000, 0.8000],
                [0.6000, 0.8000]])
    """

    #: the geometry; built from the constraint and the shape of a weight
    manifold: ClassVar[type[Manifold]]
    #: shapes of the weights that it holds together; None: it holds each weight by itself
    shapes: tuple[tuple[int, ...], ...] | None = None

    def on(self, shape: Sequence[int]) -> Manifold:
        """The manifold of weights of one shape."""
        return self.manifold(self, tuple(shape))

    def describe(self) -> dict[str, Any]:
        """The constraint as plain values and tensors, for a checkpoint."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {"name": type(self).__name__, **values}

    def not_compared(self, saved: Mapping[str, Any]) -> str:
        """What of the constraint cannot be compared with a saved description, in words; nothing by default.

        Args:
            saved: what `describe` gave for the constraint of a checkpoint.

        Returns:
            The words for a warning.
        """
        return ""

    def check_shape(self, shape: Sequence[int], name: str = "weight", copies: int = 1) -> None:
        """Raise `ConstraintError` when a weight of this shape cannot carry the constraint."""
        return

    def check_range(self, shape: Sequence[int], dtype: torch.dtype, name: str = "weight") -> None:
        """Raise `ConstraintError` when numbers of the constraint are beyond a weight's dtype."""
        return

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and same_description(self.describe(), other.describe())

    def __hash__(self) -> int:
        return hash(repr(self))

    # ---- what users call -------------------------------------------------------------------------

    @full_precision
    def violation(self, weight: Tensor, *, replicas: bool = False) -> float:
        """How far a weight is from the constraint, relative to its scale; 0 when it is satisfied.

        Args:
            weight: one weight, or a stack of them along dimension 0.
            replicas: whether `weight` is such a stack.

        Returns:
            The largest relative violation.

        Raises:
            ConstraintError: for a shard of a weight, or a weight that cannot carry the constraint.
        """
        stack = self.stacked(weight, replicas)
        return float(self.on(stack.shape[1:]).violations(stack).max()) if stack.numel() else 0.0

    @torch.no_grad()
    def init_(
        self, weight: Tensor, *, init: Init = "auto", replicas: bool = False, name: str = "weight"
    ) -> Tensor:
        """Put a weight onto the manifold in place; nothing changes when that raises.

        Args:
            weight: one weight, or a stack of them along dimension 0.
            init: `"auto"` keeps a feasible weight bit for bit and puts others onto the manifold, except under
                a bound (circles, spheres with slack, inequalities), where they raise. `"keep"` only checks.
                `"nearest"` moves an infeasible weight to the nearest feasible one. `"draw"` replaces the
                weight by one drawn uniformly on the manifold; in a distributed job all ranks have to call
                this, and get the same.
            replicas: whether `weight` is such a stack.
            name: what to call it in an error.

        Returns:
            The same tensor.

        Raises:
            ConstraintError: when the weight cannot carry the constraint; InfeasibleError for its values.
        """

        def placed_at() -> Tensor | None:
            return start(self, weight, init, replicas=replicas, name=name)

        placed = drawn_alike(placed_at, [(name, weight)]) if chosen(init) == "draw" else placed_at()
        if placed is not None:
            write_(weight, placed)
        return weight

    def check(self, weight: Tensor, *, replicas: bool = False, name: str = "weight") -> None:
        """Raise unless a weight satisfies the constraint up to the rounding of a checkpoint.

        Args:
            weight: one weight, or a stack of them along dimension 0.
            replicas: whether `weight` is such a stack.
            name: what to call it in the error.

        Raises:
            ConstraintError: when the weight cannot carry the constraint; InfeasibleError for its values,
                naming the parameter, the excess and what to do.
        """
        start(self, weight, "keep", replicas=replicas, name=name)

    # ---- what the library calls ------------------------------------------------------------------

    def turned(self, groups: int, shape: Sequence[int]) -> "Constraint":
        """The same on weights of which dimension 1 counts the outputs, for a constraint that asks for them.

        Args:
            groups: of the layer.
            shape: of one weight, (in, out / groups, ...).

        Returns:
            The constraint.
        """
        return self

    def together(self, shapes: Sequence[Sequence[int]]) -> "Constraint":
        """The same on several weights at once, for a constraint that can say something of them together.

        Args:
            shapes: of the weights.

        Raises:
            ConstraintError: for a constraint on one weight. Others return the constraint whose weight has the
                entries of all of them, one behind the other.
        """
        raise ConstraintError(
            f"{self!r}: holds each weight by itself. Give each its own rule, or say what holds for "
            "several with colangevin.Implicit(g), whose g takes them as arguments."
        )

    def fitted(self, weight: Tensor, *, replicas: bool = False, name: str = "weight") -> "Constraint":
        """What holds a weight that is seen for the first time.

        Args:
            weight: one weight, or a stack of them along dimension 0.
            replicas: whether `weight` is such a stack.
            name: what to call it in an error.

        Returns:
            The constraint; another than this one if it takes numbers from the weight.
        """
        return self

    def resumed(self, description: Mapping[str, Any]) -> "Constraint | None":
        """The constraint that a checkpoint was saved under, if it is this one.

        Args:
            description: from the checkpoint.

        Returns:
            The constraint, with the checkpoint's numbers where this one took its own from a weight; None if
            the checkpoint has another.
        """
        return self if same_description(self.describe(), dict(description)) else None

    def part(self, shape: Sequence[int], slices: Sequence[slice]) -> "Constraint":
        """What holds a part of a weight, where parts move alone.

        Args:
            shape: of the whole weight.
            slices: which part it is, of one element at least.

        Returns:
            The constraint; another than this one if its numbers differ along the weight.
        """
        return self

    def stacked(self, weight: Tensor, replicas: bool, name: str = "weight") -> Tensor:
        """A weight in the state's dtype with the dimension that counts copies in front.

        Args:
            weight: one weight, or a stack of them along dimension 0.
            replicas: whether `weight` is such a stack.
            name: what to call it in an error.

        Returns:
            The stack.

        Raises:
            ConstraintError: for a shard, or a weight that cannot carry the constraint.
        """
        refuse_sharded(weight, name)
        weight = whole(weight)
        check_dtype(weight, label(name, weight.shape))
        self.check_stack(weight.shape, replicas, name)
        self.check_range(weight.shape, weight.dtype, name)
        stack = weight.detach() if replicas else weight.detach().unsqueeze(0)
        return stack.to(state_dtype(weight.dtype))

    def check_stack(self, shape: Sequence[int], replicas: bool, name: str = "weight") -> None:
        """`check_shape` for one weight, or for a stack of them along dimension 0."""
        if replicas:
            self.check_shape(shape[1:], name, copies=shape[0])
        else:
            self.check_shape(shape, name)
