"""Radii: what a user may give, how they are printed, and which of them a dtype can hold."""

from collections.abc import Sequence
from numbers import Real

import torch
from torch import Tensor

from colangevin.constraints.dtypes import state_dtype
from colangevin.errors import ConstraintError, label

__all__ = ["Radius", "rounded_up"]


class Radius:
    """One positive number, or a tensor of them.

    Args:
        value: what a user gave.

    Raises:
        ConstraintError: when a radius is not positive and finite.
    """

    def __init__(self, value: object) -> None:
        #: a float, or a detached tensor on the CPU with at least one dimension
        self.value: float | Tensor = _checked_tensor(value) if isinstance(value, Tensor) else _checked(value)

    @property
    def uniform(self) -> bool:
        """Whether it is one number."""
        return not isinstance(self.value, Tensor)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor; () for one number."""
        return tuple(self.value.shape) if isinstance(self.value, Tensor) else ()

    @property
    def smallest(self) -> float:
        """The smallest of the radii."""
        return float(self.value.min()) if isinstance(self.value, Tensor) else self.value

    @property
    def largest(self) -> float:
        """The largest of the radii."""
        return float(self.value.max()) if isinstance(self.value, Tensor) else self.value

    def copy(self) -> float | Tensor:
        """The value to hand out: changing it does not change the radius."""
        return self.value.clone() if isinstance(self.value, Tensor) else self.value

    def like(self, stack: Tensor) -> float | Tensor:
        """The value on a stack's device, in its dtype."""
        if isinstance(self.value, Tensor):
            return self.value.to(device=stack.device, dtype=stack.dtype)
        return self.value

    def broadcasts_to(self, shape: Sequence[int]) -> bool:
        """Whether there is a radius for each entry of a shape."""
        if not isinstance(self.value, Tensor):
            return True
        pairs = zip(reversed(self.value.shape), reversed(shape), strict=False)
        return self.value.dim() <= len(shape) and all(n in (1, m) for n, m in pairs)

    def part(self, shape: Sequence[int], slices: Sequence[slice]) -> float | Tensor:
        """The radii of a part of what has this shape."""
        if not isinstance(self.value, Tensor):
            return self.value
        return self.value.expand(tuple(shape))[tuple(slices)]

    def check_range(
        self, shape: Sequence[int], dtype: torch.dtype, name: str, *, argument: str = "radius"
    ) -> None:
        """Raise when a radius is beyond the numbers that a weight, or its state, can hold.

        Args:
            shape: the weight's.
            dtype: the weight's.
            name: what to call the weight.
            argument: what to call the radius.

        Raises:
            ConstraintError: naming the parameter, the radius and the range.
        """
        low, high = torch.finfo(state_dtype(dtype)).tiny, torch.finfo(dtype).max
        if not low <= self.smallest <= self.largest <= high:
            raise ConstraintError(
                f"{label(name, shape)}: {argument}={self} is out of range for a weight of {dtype}, "
                f"{low:.4g} to {high:.4g}. Choose a {argument} in between, or a wider dtype."
            )

    def __str__(self) -> str:
        if isinstance(self.value, Tensor):
            return f"tensor{tuple(self.value.shape)} in [{self.smallest:.4g}, {self.largest:.4g}]"
        return f"{self.value:g}"


def _checked_tensor(radius: Tensor) -> float | Tensor:
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


def _checked(radius: object) -> float:
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


def rounded_up(value: float) -> str:
    """A positive number in four digits, none of them below it: typed as printed, a weight fits."""
    if not 0 < value < float("inf"):
        return f"{value:.4g}"
    from decimal import ROUND_CEILING, Decimal  # for errors alone: an import of the package does not need it

    exact = Decimal(value)
    digits = exact.quantize(Decimal(1).scaleb(exact.adjusted() - 3), rounding=ROUND_CEILING)
    return f"{float(digits):.4g}"
