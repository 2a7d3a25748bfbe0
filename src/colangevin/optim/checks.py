"""Checks of the options of a parameter group: each names the option, its value and the rule."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.base import START_TOLERANCE, Constraint
from colangevin.errors import ConstraintError, label
from colangevin.integrators.rates import Scalar

__all__ = ["check_parameter", "number"]


def number(
    group: Mapping[str, Any], option: str, *, below: float = math.inf, where: str = "a group"
) -> Scalar:
    """An option of a group as a float, which must be finite, at least 0 and below a bound.

    A tensor on a device stays there unread, so that a captured CUDA graph can follow its changes. A group of
    replicas may have a number for each, as a tensor of shape (replicas,).

    Args:
        group: the parameter group.
        option: the key, for instance ``"lr"``.
        below: the bound.
        where: what to call the group in an error.

    Returns:
        The value.

    Raises:
        ConstraintError: naming option, value and rule.
    """
    value = group[option]
    rule = "finite and >= 0" if below == math.inf else f"at least 0 and below {below:g}"
    if isinstance(value, Tensor):
        if value.numel() != 1:
            return _number_for_each(value, option, group["replicas"], below, rule, where)
        if value.is_cuda:
            return value.reshape(())
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < below:
        raise ConstraintError(f"{option}={group[option]!r} in {where}: must be {rule}.")
    return float(value)


def _number_for_each(
    value: Tensor, option: str, replicas: int, below: float, rule: str, where: str
) -> Tensor:
    """An option with a number for each replica, which lies on a device unread."""
    if not replicas or value.shape != (replicas,):
        raise ConstraintError(
            f"{option}: a tensor of shape {tuple(value.shape)} in {where}, which has replicas={replicas}: "
            "must be one number, or in a group of n replicas a tensor of shape (n,)."
        )
    if not value.is_cuda:
        bad = ~((value >= 0) & (value < below))
        if bool(bad.any()):
            first = int(bad.int().argmax())
            raise ConstraintError(f"{option}[{first}]={value[first].item()!r} in {where}: must be {rule}.")
    return value.double()  # what follows from it is then as precise as with floats


def check_parameter(parameter: Tensor, constraint: Constraint, name: str, replicas: int, where: str) -> None:
    """Raise unless a parameter can be held by its constraint.

    Args:
        parameter: the parameter.
        constraint: what is to hold it.
        name: what to call it in an error.
        replicas: how many copies it stacks along dimension 0, 0 when it is one weight.
        where: what to call its group in an error.

    Raises:
        ConstraintError: for a dtype or a shape that does not fit; InfeasibleError for its values.
    """
    what = label(name, parameter.shape)
    if parameter.is_complex():
        raise ConstraintError(
            f"{what}: complex parameters are not supported. Hold the real view instead, "
            "torch.view_as_real(parameter), or leave it to another optimizer."
        )
    if parameter.dtype not in START_TOLERANCE:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in START_TOLERANCE)
        raise ConstraintError(f"{what}: dtype {parameter.dtype} is not supported; use {names}.")
    if parameter.layout is not torch.strided:
        raise ConstraintError(f"{what}: layout {parameter.layout} is not supported; use a dense tensor.")
    if replicas and (parameter.dim() == 0 or parameter.shape[0] != replicas):
        raise ConstraintError(f"{what}: {where} has replicas={replicas}, so dimension 0 must be {replicas}.")
    constraint.check_stack(parameter.shape, bool(replicas), name)
    constraint.check(parameter, replicas=bool(replicas), name=name)
