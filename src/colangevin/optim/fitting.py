"""Fitting: a group's constraint, once its parameters have been seen."""

from collections.abc import Mapping, Sequence
from typing import Any

from colangevin.constraints import Constraint
from colangevin.errors import ConstraintError

__all__ = ["fitted"]


def fitted(group: Mapping[str, Any], names: Sequence[str], where: str) -> Constraint:
    """The constraint of a group, with numbers that it takes from its parameters.

    Args:
        group: the parameter group.
        names: of its parameters.
        where: what to call the group in an error.

    Returns:
        The constraint.

    Raises:
        ConstraintError: when parameters would need different numbers; InfeasibleError when one has none.
    """
    constraint: Constraint = group["constraint"]
    pairs = zip(group["params"], names, strict=True)
    found = [constraint.fitted(each, replicas=bool(group["replicas"]), name=name) for each, name in pairs]
    if any(each != found[0] for each in found[1:]):
        raise ConstraintError(
            f"constraint={constraint!r} in {where}: takes its radius from a weight, and those of {names[0]} "
            "and others of the group differ. Use colangevin.constrain(model, rules), which makes a group for "
            "each, or give every parameter a group of its own."
        )
    return found[0] if found else constraint
