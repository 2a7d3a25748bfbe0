"""How a weight lies in memory. Without Triton, so that it can be asked anywhere."""

import itertools
import math
from collections.abc import Iterable, Sequence

from torch import Tensor

from colangevin.step.entry import Entry

__all__ = ["Dimension", "dimensions", "in_order", "is_dense", "merged"]

#: how many elements, and how far apart
Dimension = tuple[int, int]

_MOST = 2**31 - 1  # elements whose numbers the kernels take apart: they do so in int32


def dimensions(entry: Entry) -> tuple[Dimension, ...]:
    """The dimensions of one copy of a parameter.

    Args:
        entry: the parameter.

    Returns:
        Sizes and strides.
    """
    every = tuple(zip(entry.parameter.shape, entry.parameter.stride(), strict=True))
    return every[1:] if entry.replicas else every


def is_dense(entry: Entry) -> bool:
    """Whether a parameter fills its memory without gaps, copy after copy, in any order of dimensions.

    Args:
        entry: the parameter.

    Returns:
        Whether it does, and has no more elements than kernels can number.
    """
    weight: Tensor = entry.parameter
    if weight.is_contiguous():
        return True
    follow = entry.copies == 1 or weight.stride(0) == entry.size
    return follow and entry.size <= _MOST and _fills(dimensions(entry))


def in_order(dims: Sequence[Dimension]) -> bool:
    """Whether the elements of one copy lie in the order of their numbers.

    Args:
        dims: of the copy.

    Returns:
        Whether they do.
    """
    return merged(reversed(dims)) in ([], [(math.prod(size for size, _ in dims), 1)])


def merged(dims: Iterable[Dimension]) -> list[Dimension]:
    """Dimensions with those joined that count on from one another, and without those of size 1.

    Args:
        dims: the fastest first.

    Returns:
        The dimensions, the fastest first.
    """
    found: list[Dimension] = []
    for size, stride in dims:
        if size == 1:
            continue
        if found and found[-1][0] * found[-1][1] == stride:
            found[-1] = (found[-1][0] * size, found[-1][1])
        else:
            found.append((size, stride))
    return found


def _fills(dims: Sequence[Dimension]) -> bool:
    """Whether there is neither a gap nor an overlap between elements."""
    by_stride = sorted((stride, size) for size, stride in dims if size != 1)
    lengths = itertools.accumulate((size for _, size in by_stride), int.__mul__, initial=1)
    return all(stride == length for (stride, _), length in zip(by_stride, lengths, strict=False))
