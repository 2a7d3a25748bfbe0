"""Constraints as plain values, and whether two such descriptions mean the same constraint."""

from typing import Any

from torch import Tensor

__all__ = ["same_description"]


def same_description(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two :meth:`~colangevin.Constraint.describe` results mean the same constraint."""
    # entries of a dictionary are optional, so a missing dictionary says as little as an empty one
    return all(_same_value(one.get(key, {}), other.get(key, {})) for key in one.keys() | other.keys())


def _same_value(one: object, other: object) -> bool:
    """Equality of plain values and tensors; dictionaries are compared where both have an entry."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_same_value(one[key], other[key]) for key in one.keys() & other.keys())
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return (
            isinstance(one, Tensor)
            and isinstance(other, Tensor)
            and one.shape == other.shape
            and bool((one.cpu() == other.cpu()).all())
        )
    return bool(one == other)
