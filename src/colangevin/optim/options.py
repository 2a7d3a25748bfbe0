"""Options of a group: its own copies of them, whether they have changed, and those that are not followed."""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

from torch import Tensor

from colangevin.errors import ConstraintError
from colangevin.optim.per_replica import PerReplica

__all__ = ["SHARED", "check_foreign", "identical", "may_change", "own", "own_options"]

#: options that every optimizer here has
SHARED = ("constraint", "replicas", "first_replica", "seed", "maximize", "weight_decay")
# How alike a key has to be to an option to be taken for it, misspelt, and how much longer it may be: keys
# that others add, as max_momentum and no_weight_decay, are less alike, or longer.
_ALIKE, _LONGER = 0.85, 2

# what of a group is no option
_LISTS = ("params", "param_names")

# options of torch's optimizers, each with the values that change nothing
_OF_TORCH: dict[str, tuple[object, ...]] = {
    "amsgrad": (False,),
    "betas": (),
    "dampening": (0,),
    "decoupled_weight_decay": (True,),
    "differentiable": (False,),
    "eps": (),
    "momentum": (0,),
    "nesterov": (False,),
}


def own(value: Any) -> Any:
    """A group's own copy of an option: a copy of a tensor, a plain number for one of NumPy's."""
    if isinstance(value, Tensor):
        copy = value.detach().clone()
        return copy if copy.numel() == 1 else copy.as_subclass(PerReplica)
    if getattr(value, "ndim", 0):  # an array
        value = tuple(value.tolist())
    if isinstance(value, tuple | list):
        each = [own(number) for number in value]
        return each if isinstance(value, list) else tuple(each)
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def own_options(group: dict[str, Any]) -> None:
    """Give a group options of its own."""
    group.update({key: own(value) for key, value in group.items() if key not in _LISTS})


def may_change(value: Any) -> bool:
    """Whether an option may change without being replaced."""
    return isinstance(value, Tensor | list) or (isinstance(value, tuple) and any(map(may_change, value)))


def identical(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether options are the same, without reading numbers that lie on a device."""
    return all(
        a is b or not (isinstance(a, Tensor) or isinstance(b, Tensor) or a != b)
        for a, b in zip(one, other, strict=True)
    )


def check_foreign(group: Mapping[str, Any], options: Collection[str], optimizer: str, where: str) -> None:
    """Raise for an option that would not be followed: one of torch's optimizers, or one that is misspelt.

    Args:
        group: the parameter group. Other keys belong to somebody else, a scheduler for instance.
        options: of this optimizer.
        optimizer: its name.
        where: what to call the group in an error.

    Raises:
        ConstraintError: naming the option and what to do.
    """
    for option in sorted(_OF_TORCH.keys() & group.keys() - set(options)):
        value = group[option]
        if not (isinstance(value, Real) and value in _OF_TORCH[option]):
            instead = f"adam_{option}" if f"adam_{option}" in options else ""
            action = f"For what is under Adam, say {instead} instead." if instead else "Leave it out."
            raise ConstraintError(f"{option}={value!r} in {where}: {optimizer} has no such option. {action}")
    ours = {*options, *SHARED, "noise_by"}
    for key in sorted(map(str, group.keys() - ours - _OF_TORCH.keys() - {*_LISTS})):
        meant = get_close_matches(key, ours, n=1, cutoff=_ALIKE)
        if meant and len(key) <= len(meant[0]) + _LONGER:
            raise ConstraintError(
                f"{key}={group[key]!r} in {where}: {optimizer} has no such option. Write {meant[0]!r}, if "
                "you meant that, or give it another name."
            )
