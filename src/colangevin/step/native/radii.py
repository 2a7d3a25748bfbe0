"""The radii of a parameter, as the native library reads them."""

import math

import torch
from torch import Tensor

from colangevin.constraints.forms import SphereForm
from colangevin.constraints.radius import Radius
from colangevin.step.entry import Entry

__all__ = ["one_a_copy", "radius_table"]


def one_a_copy(radius: Radius, entry: Entry) -> bool:
    """Whether all weights of a copy have the same radius.

    Args:
        radius: of a circle constraint.
        entry: a parameter under it.

    Returns:
        Whether there is one number, or one for each copy.
    """
    shape = radius.shape
    one_each = math.prod(shape) == entry.copies and shape[:1] == (entry.copies,)
    return radius.uniform or (one_each and len(shape) == 1 + len(entry.shape))


def radius_table(radius: Radius, entry: Entry) -> Tensor:
    """A radius for each element of each copy or, of spheres, for each row; in the state's dtype.

    Args:
        radius: what a user gave.
        entry: a parameter under it.

    Returns:
        A tensor of shape (copies, elements) or (copies, rows).
    """
    value = torch.as_tensor(radius.value, dtype=entry.dtype, device="cpu")
    rows = isinstance(entry.form, SphereForm)
    shape = (entry.copies, *(entry.configuration_shape[:1] if rows else entry.shape))
    return value.expand(shape).reshape(entry.copies, -1).contiguous()
