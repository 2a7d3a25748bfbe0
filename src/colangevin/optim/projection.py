"""`project_`: the weights of a model, put onto the nearest points of its constraints."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from colangevin.constraints import Constraint, Free
from colangevin.errors import ConstraintError, InfeasibleError, label
from colangevin.optim.groups import members
from colangevin.optim.names import named, stripped
from colangevin.optim.units import Unit, units
from colangevin.surroundings import full_precision

__all__ = ["nearest", "project_"]

Model = TypeVar("Model", bound=nn.Module)


@torch.no_grad()
def project_(model: Model, groups: Iterable[Mapping[str, Any]]) -> Model:
    """Put the weights of a model onto the nearest points of its constraints, in place.

    This is for weights that left their constraints: averages as those of
    `torch.optim.swa_utils.AveragedModel`, weights that were merged, pruned or quantised. Under
    `Orthogonal` a matrix becomes its polar factor. To a matrix without full rank many points are equally
    near; one of them is drawn from torch's generator. Under `Sphere` rows are scaled, under `Circle`
    entries are clamped; what is within these bounds keeps its bits. Free parameters, parameters that no group
    names, and buffers stay as they are.

    Args:
        model: has the parameters that the groups name. It may be the model that the groups were made from, a
            copy of it, or a wrapper around either such as `AveragedModel`.
        groups: from `colangevin.constrain`, or `param_groups` of an optimizer built from these. They
            give names and constraints.

    Returns:
        The model.

    Raises:
        ConstraintError: naming the parameter, when the model does not have it or has it in another shape,
            when two groups name it, or when it has no name; InfeasibleError when it has no nearest point.
            No weight has been changed then.
        TypeError: when something in `groups` is no group of parameters.

    Examples:
        >>> model = nn.Linear(3, 3)
        >>> groups = cl.constrain(model, {"weight": cl.Orthogonal()})
        >>> average = torch.optim.swa_utils.AveragedModel(model)
        >>> _ = average.module.weight.data.mul_(0.9)
        >>> round(cl.Orthogonal().violation(average.module.weight), 2)
        0.19
        >>> _ = cl.project_(average, groups)
        >>> cl.Orthogonal().violation(average.module.weight) < 1e-6
        True
    """
    parameters = {name: parameter for parameter, names in named(model).items() for name in names}
    placed: list[tuple[Unit, Tensor]] = []
    seen: set[str] = set()
    for number, group in enumerate(groups):
        named_here, found = members(group), []
        constraint, replicas = group.get("constraint", Free()), bool(group.get("replicas"))
        if not isinstance(constraint, Constraint):
            raise TypeError(f"groups[{number}]: constraint={constraint!r} must be a constraint, or left out.")
        for name, like in named_here:
            if name is None:
                raise ConstraintError(
                    f"groups[{number}]: its parameters have no names to find them by in the model. Use the "
                    "groups of colangevin.constrain(model, rules), or of an optimizer built from them."
                )
            key = name if name in parameters else stripped(name)
            _check(type(model).__name__, parameters, key, like)
            if key in seen:
                raise ConstraintError(
                    f"{label(key, like.shape)}: two groups name it. Use one list of groups."
                )
            seen.add(key)
            found.append((key, parameters[key]))
        for unit in units(constraint, found, int(replicas), f"groups[{number}]"):
            weight = unit.weight
            if not isinstance(constraint, Free) and weight.numel():
                placed.append((unit, nearest(constraint, weight, replicas=replicas, name=unit.name)))
    for unit, values in placed:
        unit.write_(values)
    return model


def _check(model: str, parameters: dict[str, Tensor], name: str, like: Tensor) -> None:
    """Raise unless a model has a parameter of this name and shape."""
    if name not in parameters:
        raise ConstraintError(
            f"{label(name, like.shape)}: {model} has no parameter of this name. Its parameters are: "
            f"{', '.join(parameters)}."
        )
    if parameters[name].shape != like.shape:
        raise ConstraintError(
            f"{label(name, parameters[name].shape)}: has shape {tuple(like.shape)} in the groups. Use a copy "
            "of the model that the groups were made from."
        )


@torch.no_grad()
@full_precision
def nearest(constraint: Constraint, weight: Tensor, *, replicas: bool, name: str) -> Tensor:
    """The nearest feasible weight. The weight itself stays as it is.

    `init="nearest"` of `colangevin.constrain` keeps weights that are feasible up to the rounding of a
    checkpoint. This one does not.

    Args:
        constraint: what holds the weight.
        weight: one weight with at least one entry, or a stack of them along dimension 0.
        replicas: whether `weight` is such a stack.
        name: what to call it in an error.

    Returns:
        A tensor of the weight's shape and dtype.

    Raises:
        InfeasibleError: when it has NaN or Inf, or no nearest point.
    """
    stack = constraint.stacked(weight, replicas, name)
    bad = int((~stack.isfinite()).sum())
    if bad:
        raise InfeasibleError(
            f"{label(name, weight.shape)}: {bad} entries are NaN or Inf, so there is no nearest feasible "
            "weight. Load weights that are finite first."
        )
    found = constraint.on(stack.shape[1:]).nearest(stack, name)
    return found.to(weight.dtype).reshape(weight.shape)
