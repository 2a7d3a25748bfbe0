"""Checks of the options of a parameter group: each names the option, its value and the rule."""

import math
import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import Constraint, Free
from colangevin.constraints.dtypes import START_TOLERANCE, check_dtype
from colangevin.dynamics import Dynamics
from colangevin.dynamics.rates import Scalar, largest
from colangevin.errors import ConstraintError, label
from colangevin.optim.units import Unit, check_alike
from colangevin.sharded import is_sharded, refuse_sharded, whole

__all__ = [
    "check_noise",
    "check_shared",
    "check_unit",
    "fractions",
    "number",
    "positive",
    "warn_at_rest",
    "without_temperature",
]


# The numbers of a step are float32 where the weights are, so none may be larger than this.
_LARGEST = torch.finfo(torch.float32).max


def check_shared(group: Mapping[str, Any], where: str) -> None:
    """Raise unless a group's constraint, replicas, seed and kind of noise are valid.

    Args:
        group: the parameter group.
        where: what to call it in an error.

    Raises:
        TypeError: for a constraint that is not a :class:`~colangevin.Constraint`.
        ConstraintError: for another option out of range.
    """
    constraint = group["constraint"]
    if not isinstance(constraint, Constraint):
        raise TypeError(
            f"constraint={constraint!r} in {where}: must be a constraint such as "
            "colangevin.Circle(0.05), not " + type(constraint).__name__ + "."
        )
    for option in ("replicas", "first_replica"):
        value = group[option]
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConstraintError(f"{option}={value!r} in {where}: must be a whole number, at least 0.")
    seed = group["seed"]
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise ConstraintError(f"seed={seed!r} in {where}: must be a whole number or None.")
    noise_by = group["noise_by"]
    if noise_by not in ("name", "index"):
        raise ConstraintError(f"noise_by={noise_by!r} in {where}: must be 'name' or 'index'.")
    if noise_by == "name" and group.get("param_names") is None:
        raise ConstraintError(
            f"noise_by='name' in {where}: noise follows from names of parameters, and these have none. "
            "Build the optimizer with named ones: model.named_parameters(), or the groups of "
            "colangevin.constrain(model, rules)."
        )


def check_noise(group: Mapping[str, Any], dynamics: Dynamics, where: str) -> None:
    """Raise when the size of the noise, from temperature and step size, is beyond the range of float32.

    Args:
        group: the parameter group.
        dynamics: the one of the group's options.
        where: what to call the group in an error.

    Raises:
        ConstraintError: naming the size of the noise.
    """
    options = (group["temperature"], group["lr"])
    if not dynamics.noisy or any(isinstance(each, Tensor) and each.is_cuda for each in options):
        return  # reading numbers on a device would wait for it
    size = largest(dynamics.noise_scale)
    if not size < _LARGEST:
        raise ConstraintError(
            f"temperature and lr in {where}: together they make noise of size {size:.3g}, beyond the range "
            f"of float32 ({_LARGEST:.3g}). Lower the temperature or raise lr."
        )


def number(
    group: Mapping[str, Any], option: str, *, below: float = math.inf, where: str = "a group"
) -> Scalar:
    """An option of a group as a float; raises unless it is at least 0, below a bound and in float32's range.

    A tensor on a device stays there unread, so that a captured CUDA graph can follow its changes. A group of
    replicas may have one number for each, as a tensor of shape (replicas,).

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
    if isinstance(value, Tensor):
        if value.numel() != 1:
            return _number_for_each(value, option, group["replicas"], below, where)
        if value.is_cuda:
            return value.reshape(())
        value = value.item()
    value = float(value) if not isinstance(value, bool) and isinstance(value, Real) else math.nan
    if not 0 <= value < min(below, _LARGEST):
        raise ConstraintError(f"{option}={group[option]!r} in {where}: must be {_rule(value, below)}.")
    return value


def positive(group: Mapping[str, Any], option: str, where: str) -> float:
    """An option of a group as a float above 0, for what is divided by.

    Args:
        group: the parameter group.
        option: the key.
        where: what to call the group in an error.

    Returns:
        The value.

    Raises:
        ConstraintError: naming option, value and rule.
    """
    value = float(number({option: group[option], "replicas": 0}, option, where=where))
    if value < torch.finfo(torch.float32).tiny:
        raise ConstraintError(
            f"{option}={group[option]!r} in {where}: must be above 0, at least "
            f"{torch.finfo(torch.float32).tiny:.3g}: a weight without a gradient would be divided by it."
        )
    return value


def fractions(group: Mapping[str, Any], option: str, where: str) -> tuple[float, float]:
    """An option of a group that is two numbers, each at least 0 and below 1.

    Args:
        group: the parameter group.
        option: the key, for instance ``"betas"``.
        where: what to call the group in an error.

    Returns:
        The numbers.

    Raises:
        ConstraintError: naming option, value and rule.
    """
    value = group[option]
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise ConstraintError(
            f"{option}={value!r} in {where}: must be two numbers, each at least 0 and below 1."
        )
    each = {f"{option}[{i}]": number for i, number in enumerate(value)}
    first, second = (float(number({**each, "replicas": 0}, key, below=1, where=where)) for key in each)
    return first, second


def without_temperature(group: Mapping[str, Any], optimizer: str, where: str) -> None:
    """Raise if a group of an optimizer that does not sample asks for a temperature.

    Args:
        group: the parameter group.
        optimizer: its class.
        where: what to call the group in an error.

    Raises:
        ConstraintError: naming the optimizers that sample.
    """
    if largest(number(group, "temperature", where=where)):
        raise ConstraintError(
            f"temperature={group['temperature']!r} in {where}: {optimizer} has none, since a step that "
            "depends on past gradients leaves no known law invariant. Set it to 0, or sample with CoLud, "
            "CoLod or ConstrainedSGD."
        )


def _number_for_each(value: Tensor, option: str, replicas: int, below: float, where: str) -> Tensor:
    """An option with a number for each replica. On a device it is not read."""
    if not replicas or value.shape != (replicas,):
        raise ConstraintError(
            f"{option}: a tensor of shape {tuple(value.shape)} in {where}, which has replicas={replicas}: "
            "must be one number, or in a group of n replicas a tensor of shape (n,)."
        )
    if not value.is_cuda:
        bad = ~((value >= 0) & (value < min(below, _LARGEST)))
        if bool(bad.any()):
            first = int(bad.int().argmax())
            number = value[first].item()
            raise ConstraintError(f"{option}[{first}]={number!r} in {where}: must be {_rule(number, below)}.")
    return value.double()  # float64: numbers computed from it are as precise as those from a float


def _rule(value: float, below: float) -> str:
    """The rule that a number broke."""
    if below < math.inf:
        return f"at least 0 and below {below:g}"
    too_large = _LARGEST <= value < math.inf
    return f"below {_LARGEST:.3g}, the range of float32" if too_large else "finite and >= 0"


def check_unit(unit: Unit, constraint: Constraint, where: str) -> None:
    """Raise unless a parameter, or several together, can be held by a constraint.

    Args:
        unit: the parameters.
        constraint: what is to hold them.
        where: what to call their group in an error.

    Raises:
        ConstraintError: for a dtype or a shape that does not fit; InfeasibleError for values that violate
            the constraint.
    """
    for name, parameter in zip(unit.names, unit.parameters, strict=True):
        _check_parameter(parameter, constraint, name, unit.replicas, where)
    check_alike(unit, constraint)
    weight, replicas = unit.weight, bool(unit.replicas)
    constraint.check_stack(weight.shape, replicas, unit.name)
    if not isinstance(constraint, Free):
        constraint.check(weight, replicas=replicas, name=unit.name)


def _check_parameter(parameter: Tensor, constraint: Constraint, name: str, replicas: int, where: str) -> None:
    """Raise unless a parameter is one that steps can be taken in."""
    refuse_sharded(parameter, name)
    if (
        isinstance(constraint, Free)
        and not parameter.requires_grad
        and parameter.dtype not in START_TOLERANCE
    ):
        return  # frozen weights in a dtype without steps, such as quantised ones; torch.optim takes them too
    what = label(name, parameter.shape)
    check_dtype(parameter, what)
    if parameter.layout is not torch.strided:
        raise ConstraintError(f"{what}: layout {parameter.layout} is not supported; use a dense tensor.")
    if parameter.is_inference() and parameter.requires_grad:
        raise ConstraintError(
            f"{what}: it was made inside of torch.inference_mode(), and no step can change such a tensor. "
            "Build the model outside of it, or under torch.no_grad()."
        )
    if replicas and (parameter.dim() == 0 or parameter.shape[0] != replicas):
        raise ConstraintError(f"{what}: {where} has replicas={replicas}, so dimension 0 must be {replicas}.")
    if is_sharded(parameter):
        _check_sharded(parameter, what)
    if replicas and is_sharded(parameter):
        raise ConstraintError(
            f"{what}: is a DTensor, and {where} has replicas={replicas}. Replicas are whole on every "
            "process: use plain parameters, or one weight a DTensor."
        )


def _check_sharded(parameter: Tensor, what: str) -> None:
    """Raise unless every process of a mesh holds a block of the parameter."""
    from colangevin.sharding.layout import layout_of  # imports the modules of DTensors

    layout_of(parameter, what)  # type: ignore[arg-type]


def warn_at_rest(constraint: Constraint, weight: Tensor, name: str, replicas: int) -> None:
    """Warn of weights that only noise can move: the gradient has no tangential part, as at a circle's bound.

    Args:
        constraint: what holds the weight.
        weight: a parameter, or what is held together as one weight.
        name: what to call it.
        replicas: how many copies it stacks along dimension 0, 0 when it is one weight.
    """
    if isinstance(constraint, Free):
        return
    weight = whole(weight)
    stack = weight if replicas else weight.unsqueeze(0)
    count = constraint.on(stack.shape[1:]).at_rest(stack)
    if count:
        # stacklevel 1: constrain() and the optimizer both warn, and Python shows one warning a place in code
        warnings.warn(
            f"{label(name, weight.shape)}: {count} weights start exactly at the bound of {constraint!r}, "
            "where the gradient has no tangential part; without noise they will not move. Start them inside "
            "of the bound (of a radius, choose a larger radius), or set a temperature.",
            UserWarning,
            stacklevel=1,
        )
