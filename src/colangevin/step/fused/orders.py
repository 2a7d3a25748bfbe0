"""The digits by which kernels find elements of dense weights that do not lie in their order."""

import math
from collections.abc import Iterable, Sequence

from colangevin.constraints.slices import Slices
from colangevin.kernels.columns import DigitRow
from colangevin.step.fused.layout import Dimension, merged

__all__ = ["numbers_of_places", "places_of_slices"]


def numbers_of_places(dims: Sequence[Dimension]) -> list[DigitRow]:
    """The digits that lead from a place in memory to the number of the element there.

    Args:
        dims: of one copy of a dense weight.

    Returns:
        The digits, the fastest first.
    """
    sizes = [size for size, _ in dims]
    strides = [math.prod(sizes[k + 1 :]) for k in range(len(dims))]
    return _digits((sizes[k], strides[k]) for k in sorted(range(len(dims)), key=lambda k: dims[k][1]))


def places_of_slices(dims: Sequence[Dimension], slices: Slices) -> tuple[list[DigitRow], list[DigitRow]]:
    """The digits that lead from the number of a slice to its place, and from that of an entry to its own.

    Args:
        dims: of one copy of a dense weight.
        slices: how the weight is cut.

    Returns:
        Digits of slices and digits of entries, the fastest first.
    """
    outer, inner = _apart(dims, slices)
    return _digits(reversed(outer)), _digits(reversed(inner))


def _apart(dims: Sequence[Dimension], slices: Slices) -> tuple[list[Dimension], list[Dimension]]:
    """The dimensions that count slices, and those that count the entries of one."""
    if slices.over == "matrix" or not dims:
        return [], list(dims)
    first, *rest = dims
    if not slices.transposed:
        return ([first], rest) if slices.over == "rows" else (rest[:1], [first, *rest[1:]])
    outputs, *kernel = rest
    each = first[0] // slices.transposed
    group, inputs = (slices.transposed, each * first[1]), (each, first[1])
    if slices.over == "rows":
        return [group, outputs], [inputs, *kernel]
    return [inputs], [group, outputs, *kernel]


def _digits(dims: Iterable[Dimension]) -> list[DigitRow]:
    """Digits from dimensions, the fastest first; at least one."""
    return [DigitRow(size=size, stride=stride) for size, stride in merged(dims) or [(1, 0)]]
