"""State dicts: made of plain values and tensors, and checked before one is loaded."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import Constraint, Manifold
from colangevin.dynamics import Dynamics
from colangevin.errors import ConstraintError, label
from colangevin.optim.options import own
from colangevin.optim.units import Unit, units
from colangevin.sharded import everywhere, part, spread
from colangevin.step.entry import STATE, state_shape

__all__ = [
    "NOISE_BEFORE",
    "check_form",
    "check_groups",
    "check_states",
    "constraints_of",
    "pack",
    "restore_precision",
]

#: the option ``noise_by`` of groups that were saved before they had it
NOISE_BEFORE = "index"


def pack(optimizer: object, state_dict: dict[str, Any]) -> None:
    """Replace constraints by their descriptions and NumPy's numbers by plain ones. A hook of torch."""
    for group in state_dict["param_groups"]:
        description = group["constraint"].describe()
        group.update({key: own(value) for key, value in group.items() if isinstance(value, Real)})
        group["constraint"] = description


def check_form(state_dict: object) -> None:
    """Raise unless an object has the form of a state dict.

    Args:
        state_dict: what is to be loaded.

    Raises:
        ConstraintError: saying what is missing.
    """
    if not isinstance(state_dict, Mapping):
        raise ConstraintError(
            f"state dict: {type(state_dict).__name__} was given; must be what state_dict() returned."
        )
    for key, kind in (("state", Mapping), ("param_groups", Sequence)):
        if not isinstance(state_dict.get(key), kind):
            raise ConstraintError(
                f"state dict: its {key!r} is {_kind(state_dict.get(key))}; must be what state_dict() "
                "returned, which has 'state' and 'param_groups'."
            )


def check_groups(
    state_dict: Mapping[str, Any],
    groups: Sequence[dict[str, Any]],
    names: Sequence[Sequence[str]],
    options: Iterable[str],
) -> list[dict[str, Any]]:
    """Raise unless the groups of a state dict have the constraints and parameters of the optimizer's groups.

    Args:
        state_dict: what is to be loaded.
        groups: the optimizer's groups.
        names: the names of their parameters.
        options: keys that every group of the state dict must have.

    Returns:
        The groups as they would be once loaded. Nothing has changed yet.

    Raises:
        ConstraintError: naming the parameter and both constraints.
    """
    saved_groups = state_dict["param_groups"]
    if len(saved_groups) != len(groups):
        raise ConstraintError(
            f"state dict: it has {len(saved_groups)} parameter groups, the optimizer {len(groups)}. Build "
            "the optimizer as the saved one was built, then load."
        )
    for number, (saved, group) in enumerate(zip(saved_groups, groups, strict=True)):
        _check_group(number, saved, group, names[number], options)
    # as torch does it: saved names replace the optimizer's, which stay where none were saved
    return [
        {
            "noise_by": NOISE_BEFORE,
            "param_names": group.get("param_names"),
            **saved,
            "params": group["params"],
            "constraint": constraint,
        }
        for saved, group, constraint in zip(
            saved_groups, groups, constraints_of(state_dict, groups), strict=True
        )
    ]


def _check_group(
    number: int, saved: object, group: dict[str, Any], names: Sequence[str], options: Iterable[str]
) -> None:
    if not isinstance(saved, Mapping) or not isinstance(saved.get("constraint"), Mapping | Constraint):
        raise ConstraintError(
            f"state dict: group {number} names no constraint, so it was not saved by this library. "
            "Start from the model's weights instead."
        )
    missing = next((option for option in ("params", *options) if option not in saved), None)
    if missing is not None:
        raise ConstraintError(
            f"state dict: group {number} has no {missing!r}, so it was saved by another optimizer. Load "
            "it into an optimizer of the class that saved it."
        )
    if len(saved["params"]) != len(group["params"]):
        raise ConstraintError(
            f"state dict: group {number} has {len(saved['params'])} parameters, the optimizer's "
            f"{len(group['params'])}. Build the optimizer as the saved one was built, then load."
        )
    if saved["replicas"] != group["replicas"]:
        raise ConstraintError(
            f"state dict: group {number} has replicas={saved['replicas']!r}, the optimizer's "
            f"{group['replicas']}. Build the optimizer as the saved one was built, then load."
        )
    theirs = _description(saved)
    first = next(iter(_units(group, names)), None)
    what = "" if first is None else label(first.name, first.weight.shape)
    if what and group["constraint"].resumed(theirs) is None:
        raise ConstraintError(
            f"{what}: the state dict was saved under {_words(theirs)}, "
            f"the optimizer holds it under {_words(group['constraint'].describe())}. Use the same "
            "constraint, or start with a fresh optimizer."
        )
    unknown = group["constraint"].not_compared(theirs) if what else ""
    if unknown:
        warnings.warn(
            f"{what}: whether the state dict was saved under the same "
            f"constraint cannot be seen in full. Not compared: {unknown}. Make sure that it is the same.",
            UserWarning,
            stacklevel=2,
        )


def constraints_of(state_dict: Mapping[str, Any], groups: Sequence[dict[str, Any]]) -> list[Constraint]:
    """The constraints of groups once a state dict is loaded: norms that were measured are the saved ones."""
    pairs = zip(groups, state_dict["param_groups"], strict=True)
    # a group without parameters keeps its own
    return [group["constraint"].resumed(_description(saved)) or group["constraint"] for group, saved in pairs]


def _description(saved: Mapping[str, Any]) -> Mapping[str, Any]:
    """The constraint of a saved group in plain values."""
    theirs = saved["constraint"]
    # ZeroRedundancyOptimizer saves options as they are
    return theirs.describe() if isinstance(theirs, Constraint) else theirs


def check_states(
    state_dict: Mapping[str, Any],
    groups: Sequence[dict[str, Any]],
    names: Sequence[Sequence[str]],
    moments: Iterable[str],
) -> None:
    """Raise unless the states of a state dict are complete, finite and of the parameters' shapes.

    Args:
        state_dict: what is to be loaded; :func:`check_groups` has checked its groups.
        groups: the optimizer's groups.
        names: the names of their parameters.
        moments: those that every step leaves.

    Raises:
        ConstraintError: naming the parameter and what is wrong with its state.
    """
    for saved, group, called in zip(state_dict["param_groups"], groups, names, strict=True):
        keys = dict(zip(group["params"], saved["params"], strict=True))
        for unit in _units(group, called):
            weight = unit.weight
            state = state_dict["state"].get(keys[unit.first], {})
            what = f"{label(unit.name, weight.shape)}: the state dict"
            if not isinstance(state, Mapping):
                raise ConstraintError(f"{what} holds {_kind(state)} for it; {_WHOLE}")
            manifold = group["constraint"].on(weight.shape[1:] if group["replicas"] else weight.shape)
            needed = {"step", *moments} | ({"position"} if manifold.hidden else set())
            # of Muon's groups, what Adam moves
            if saved.get("method") == "adam" or ("method" in saved and len(manifold.shape) < 2):
                needed.add("second_moment")
            lacking = sorted(needed - state.keys()) if state else []
            if lacking:
                raise ConstraintError(f"{what} holds no {lacking[0]!r} for it; {_WHOLE}")
            for entry in _STORED:  # other entries are not this library's, and are not checked
                if entry in state:
                    _check_entry(what, entry, state[entry], weight, manifold, max(1, group["replicas"]))


def _units(group: Mapping[str, Any], names: Sequence[str]) -> list[Unit]:
    """The units of a group that has been checked."""
    members = zip(names, group["params"], strict=True)
    return list(units(group["constraint"], members, group["replicas"], "the optimizer"))


_STORED = ("step", *STATE)
_WHOLE = "load a state dict as state_dict() returned it."


def _check_entry(what: str, key: str, value: object, weight: Tensor, manifold: Manifold, copies: int) -> None:
    """Raise unless one entry of a parameter's state is what a step stores there."""
    if not isinstance(value, Tensor):
        raise ConstraintError(f"{what} holds {_kind(value)} as its {key!r}, not a tensor; {_WHOLE}")
    if key == "step":
        if value.dim() or value.is_floating_point() or value.is_complex() or int(value) < 0:
            raise ConstraintError(
                f"{what} holds {_kind(value)} as its 'step', which must be one whole number, at least 0; "
                f"{_WHOLE}"
            )
        return
    expected = state_shape(manifold, tuple(weight.shape), copies)
    if tuple(value.shape) != expected:
        raise ConstraintError(
            f"{what} holds a {key} of shape {tuple(value.shape)}, this parameter needs {expected}. Load a "
            "state dict of the same model."
        )
    if not value.is_floating_point() or not everywhere(value, bool(part(value).isfinite().all())):
        words = "NaN or Inf" if value.is_floating_point() else str(value.dtype)
        raise ConstraintError(f"{what} holds {words} in its {key}. Load an earlier state dict.")
    if key == "second_moment" and not everywhere(value, bool((part(value) >= 0).all())):
        raise ConstraintError(
            f"{what} holds negative numbers in its {key}, an average of squares. Load an earlier state dict."
        )


def restore_precision(
    state_dict: Mapping[str, Any],
    groups: Sequence[dict[str, Any]],
    dynamics: Sequence[Dynamics],
    state: dict[Tensor, dict[str, Any]],
) -> None:
    """Load saved tensors in the state's own dtypes. torch has cast them to the parameter's dtype."""
    for saved, group, each in zip(state_dict["param_groups"], groups, dynamics, strict=True):
        for key, parameter in zip(saved["params"], group["params"], strict=True):
            values = state_dict["state"].get(key, {})
            for name in filter(values.__contains__, _STORED):
                precision = each.precision(group["constraint"].on(parameter.shape), parameter.dtype)
                dtype = torch.int64 if name == "step" else precision
                value = values[name].detach().to(parameter.device, dtype, copy=True)
                state[parameter][name] = value if name == "step" else spread(value, parameter)


def _kind(value: object) -> str:
    """A value in an error message: a tensor by shape and dtype, another by type and ``repr``."""
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} of {value.dtype}"
    return "None" if value is None else f"{type(value).__name__} {value!r:.40}"


def _words(description: Mapping[str, Any]) -> str:
    """The description of a constraint as a constructor call."""
    options = ", ".join(
        f"{key}=tensor{tuple(value.shape)}" if isinstance(value, Tensor) else f"{key}={value!r}"
        for key, value in description.items()
        if key != "name"
    )
    return f"{description.get('name')}({options})"
