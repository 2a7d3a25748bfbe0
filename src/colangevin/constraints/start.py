"""How a weight starts: kept as it is, moved to the nearest point of the manifold, or drawn."""

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from colangevin.errors import ConstraintError, InfeasibleError, label
from colangevin.surroundings import full_precision

if TYPE_CHECKING:
    from colangevin.constraints.constraint import Constraint

__all__ = ["Init", "chosen", "start"]

Choice = Literal["auto", "keep", "nearest", "draw"]
#: a choice, or True for "auto" and False for "keep"
Init = bool | Choice

_CHOICES: tuple[Choice, ...] = ("auto", "keep", "nearest", "draw")


def chosen(init: object) -> Choice:
    """The choice that a user's ``init`` means.

    Args:
        init: one of the choices, or a bool.

    Returns:
        The choice.

    Raises:
        ConstraintError: for anything else, listing the choices.
    """
    if isinstance(init, bool):
        return "auto" if init else "keep"
    for choice in _CHOICES:
        if isinstance(init, str) and init == choice:
            return choice
    raise ConstraintError(
        f"init={init!r}: must be one of {', '.join(map(repr, _CHOICES))}; True means 'auto', False 'keep'."
    )


@torch.no_grad()
@full_precision
def start(
    constraint: "Constraint", weight: Tensor, init: Init, *, replicas: bool = False, name: str = "weight"
) -> Tensor | None:
    """What a weight has to become before a run; the weight itself stays as it is.

    Args:
        constraint: what is to hold it.
        weight: one weight, or a stack of them along dimension 0.
        init: how it starts, see :meth:`Constraint.init_`.
        replicas: whether ``weight`` is such a stack.
        name: what to call it in an error.

    Returns:
        A tensor of the weight's shape and dtype, or None when the weight can stay as it is.

    Raises:
        ConstraintError: when the weight cannot carry the constraint.
        InfeasibleError: when its values do not fit and ``init`` does not move them.
    """
    choice = chosen(init)
    stack = constraint.stacked(weight, replicas, name)
    if not weight.numel():
        return None
    manifold = constraint.on(stack.shape[1:])
    if choice == "draw":
        return manifold.draw(stack, name).to(weight.dtype).reshape(weight.shape)
    feasible = manifold.infeasibility(stack) <= manifold.start_tolerance(weight.dtype)
    if bool(feasible.all()):
        return None
    if choice == "keep" or (choice == "auto" and manifold.bounded):
        raise InfeasibleError(f"{label(name, weight.shape)}: {manifold.explain(stack)}")
    bad = int((~stack.isfinite()).sum())
    if bad:
        raise InfeasibleError(
            f"{label(name, weight.shape)}: {bad} entries are NaN or Inf, so there is no nearest feasible "
            "weight. Load weights that are finite first."
        )
    # copies that fit keep their bits
    fits = feasible.view(-1, *[1] * (stack.dim() - 1))
    nearest = torch.where(fits, stack, manifold.nearest(stack, name))
    return nearest.to(weight.dtype).reshape(weight.shape)
