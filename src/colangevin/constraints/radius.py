"""Radii: what a user may give, how they are printed, and which of them a dtype can hold."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal
from numbers import Real

import torch
from torch import Tensor

from colangevin.constraints.base import state_dtype
from colangevin.errors import ConstraintError, label

__all__ = ["check_range", "radius_copy", "radius_value", "radius_words", "rounded_up"]


def radius_value(radius: object) -> float | Tensor:
    """A radius as a positive float or a detached CPU tensor of positive numbers."""
    if isinstance(radius, Tensor):
        value = radius.detach().cpu().clone()
        if not value.is_floating_point():
            value = value.to(torch.get_default_dtype())
        smallest = float(value.min()) if value.numel() else float("nan")
        if not (value.numel() and bool(value.isfinite().all()) and smallest > 0):
            raise ConstraintError(
                f"radius: a tensor of shape {tuple(value.shape)} with smallest entry {smallest}; "
                "every radius must be positive and finite."
            )
        return float(value) if value.dim() == 0 else value
    if isinstance(radius, bool) or not isinstance(radius, Real):
        raise ConstraintError(
            f"radius={radius!r}: must be a positive number or a tensor of positive numbers."
        )
    try:
        number = float(radius)
    except OverflowError:  # a whole number beyond every float
        number = float("inf")
    if not 0 < number < float("inf"):
        raise ConstraintError(f"radius={radius}: must be positive and finite.")
    return number


def radius_copy(radius: float | Tensor) -> float | Tensor:
    """A radius to hand out: changing it does not change the constraint."""
    return radius.clone() if isinstance(radius, Tensor) else radius


def radius_words(radius: float | Tensor) -> str:
    """A radius in a repr or a message: the number, or a tensor's shape and range."""
    if isinstance(radius, Tensor):
        low, high = float(radius.min()), float(radius.max())
        return f"tensor{tuple(radius.shape)} in [{low:.4g}, {high:.4g}]"
    return f"{radius:g}"


def rounded_up(value: float) -> str:
    """A positive number in four digits, none of them below it: typed as printed, a weight fits."""
    if not 0 < value < float("inf"):
        return f"{value:.4g}"
    exact = Decimal(value)
    digits = exact.quantize(Decimal(1).scaleb(exact.adjusted() - 3), rounding=ROUND_CEILING)
    return f"{float(digits):.4g}"


def check_range(radius: float | Tensor, shape: Sequence[int], dtype: torch.dtype, name: str) -> None:
    """Raise when a radius is beyond the numbers that a weight, or its state, can hold.

    Args:
        radius: the radius.
        shape: the weight's.
        dtype: the weight's.
        name: what to call the weight.

    Raises:
        ConstraintError: naming the parameter, the radius and the range.
    """
    low, high = torch.finfo(state_dtype(dtype)).tiny, torch.finfo(dtype).max
    smallest, largest = (
        (float(radius.min()), float(radius.max())) if isinstance(radius, Tensor) else (radius, radius)
    )
    if not low <= smallest <= largest <= high:
        raise ConstraintError(
            f"{label(name, shape)}: radius={radius_words(radius)} is out of range for a weight of {dtype}, "
            f"{low:.4g} to {high:.4g}. Choose a radius in between, or a wider dtype."
        )
