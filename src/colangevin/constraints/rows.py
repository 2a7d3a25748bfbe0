"""Rows of a stack as unit vectors: lengths and directions, projections, and blocks that fit the cache."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["blocks", "left_by", "normalise", "polar_form", "precise", "rows_of", "tangent", "tangent_alone"]

_BLOCK = 1 << 18  # entries that a CPU works on at a time


def rows_of(weight: Tensor) -> Tensor:
    """A stack of weights (copies, rows, ...) as (copies, rows, entries of a row)."""
    rows = weight.shape[1] if weight.dim() > 1 else 1
    return weight.reshape(weight.shape[0], rows, math.prod(weight.shape[2:]))


def precise(rows: Tensor) -> Tensor:
    """Rows in float64, for sums that are compared with a bound."""
    return rows if rows.device.type == "mps" else rows.double()  # which MPS does not have


def blocks(q: Tensor) -> list[slice]:
    """Rows that are worked on together: on a CPU so many that what is in between stays in the cache."""
    copies, count, n = q.shape
    step = max(1, _BLOCK // max(1, copies * n) if q.device.type == "cpu" else count)
    return [slice(start, start + step) for start in range(0, count, step)]


def tangent(x: Tensor, p: Tensor) -> Tensor:
    """What of p lies along the sphere at unit vectors x."""
    return torch.addcmul(p, x, (x * p).sum(-1, keepdim=True), value=-1)


def tangent_alone(x: Tensor, p: Tensor) -> Tensor:
    """What of p lies along the sphere, also where p is normal but for its rounding."""
    return left_by(lambda p: tangent(x, p), p)


def left_by(projection: Callable[[Tensor], Tensor], p: Tensor) -> Tensor:
    """What a projection leaves of rows, also where it takes away all but their rounding."""
    left = projection(p)
    # rows of which little is left are projected again: of a large normal part the rounding stays behind
    while bool((again := _peak(p) > 2 * _peak(left)).any()):
        p, left = left, torch.where(again, projection(left), left)
    return left


def normalise(x_bar: Tensor, x: Tensor) -> Tensor:
    """Scale to length 1; a row that fell on the centre has no direction and becomes x."""
    length, direction = polar_form(x_bar)
    return torch.where(length > 0, direction, x)


def _peak(rows: Tensor) -> Tensor:
    """The largest absolute entry of each row."""
    return torch.maximum(rows.amax(-1, keepdim=True), -rows.amin(-1, keepdim=True))


def polar_form(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Lengths and directions of rows; divided by its largest entry first, no row over- or underflows."""
    peak = _peak(rows)
    zero = peak <= torch.finfo(rows.dtype).tiny
    scaled = rows / peak.masked_fill(zero, 1)
    # not vector_norm, whose running sum drops what is small beside it: a long row would end beyond its bound
    norm = scaled.square().sum(-1, keepdim=True).sqrt()
    return (peak * norm).masked_fill(zero, 0), scaled.div_(norm.masked_fill(zero, math.inf))
