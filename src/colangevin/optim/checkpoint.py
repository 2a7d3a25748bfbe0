"""State dicts of plain values and tensors, and what has to agree when one is loaded."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.base import same_description
from colangevin.errors import ConstraintError, label
from colangevin.optim.entry import state_shape

__all__ = ["check_groups", "pack", "restore_precision"]


def pack(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Replace the constraints of a state dict's groups by their descriptions."""
    for group in state_dict["param_groups"]:
        group["constraint"] = group["constraint"].describe()
    return state_dict


def check_groups(
    state_dict: dict[str, Any],
    groups: list[dict[str, Any]],
    names: list[list[str]],
    options: Iterable[str],
) -> None:
    """Raise unless a state dict belongs to these groups: same constraints, states of the right shape.

    Args:
        state_dict: what is to be loaded.
        groups: the optimizer's groups.
        names: the names of their parameters.
        options: what every group has to say.

    Raises:
        ConstraintError: naming the parameter and both constraints or shapes.
    """
    saved_groups = state_dict["param_groups"]
    if len(saved_groups) != len(groups):
        raise ConstraintError(
            f"state dict: it has {len(saved_groups)} parameter groups, the optimizer {len(groups)}. Build "
            "the optimizer as the saved one was built, then load."
        )
    for number, (saved, group) in enumerate(zip(saved_groups, groups, strict=True)):
        if "constraint" not in saved:
            raise ConstraintError(
                f"state dict: group {number} names no constraint, so it was not saved by this library. "
                "Start from the model's weights instead."
            )
        missing = next((option for option in options if option not in saved), None)
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
        ours, theirs = group["constraint"].describe(), saved["constraint"]
        for key, parameter, name in zip(saved["params"], group["params"], names[number], strict=True):
            what = label(name, parameter.shape)
            if not same_description(ours, theirs):
                raise ConstraintError(
                    f"{what}: the state dict was saved under {_words(theirs)}, the optimizer holds it under "
                    f"{_words(ours)}. Use the same constraint, or start with a fresh optimizer."
                )
            _check_shapes(state_dict["state"].get(key, {}), parameter, group, what)


def _check_shapes(saved: dict[str, Any], parameter: Tensor, group: dict[str, Any], what: str) -> None:
    replicas = group["replicas"]
    shape = tuple(parameter.shape[1:] if replicas else parameter.shape)
    expected = state_shape(group["constraint"], tuple(parameter.shape), shape, max(1, replicas))
    for key in ("position", "momentum"):
        if key in saved and tuple(saved[key].shape) != expected:
            raise ConstraintError(
                f"{what}: the state dict holds a {key} of shape {tuple(saved[key].shape)}, this parameter "
                f"needs {expected}. Load a state dict of the same model."
            )


def restore_precision(
    state_dict: dict[str, Any], groups: list[dict[str, Any]], state: dict[Tensor, dict[str, Any]]
) -> None:
    """Put saved tensors back in their own dtype: torch casts them to the parameter's on loading."""
    for saved, group in zip(state_dict["param_groups"], groups, strict=True):
        for key, parameter in zip(saved["params"], group["params"], strict=True):
            for name, value in state_dict["state"].get(key, {}).items():
                if isinstance(value, torch.Tensor):
                    state[parameter][name] = value.detach().to(parameter.device, copy=True)


def _words(description: dict[str, Any]) -> str:
    """A description as a constructor call."""
    options = ", ".join(
        f"{key}=tensor{tuple(value.shape)}" if isinstance(value, Tensor) else f"{key}={value!r}"
        for key, value in description.items()
        if key != "name"
    )
    return f"{description['name']}({options})"
