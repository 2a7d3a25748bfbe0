"""Constraints of this library on the weight of a layer.

They are apart from those that are compared with earlier versions, which do not have all of these.
"""

import torch
from torch import Tensor

import colangevin as cl
from benchmarks.contender import Contender
from benchmarks.ours import build, contender

__all__ = ["GENERAL_ENTRIES", "GENERAL_ROWS", "GENERAL_WEIGHT", "PLANES_AND_SQUARES"]


@torch.no_grad()
def _place(constraint: cl.Constraint, weight: Tensor) -> None:
    """Put a weight where the constraint holds it."""
    if isinstance(constraint, cl.NonNegative):
        weight.abs_()
    elif isinstance(constraint, cl.Simplex):
        weight.copy_(weight.softmax(1))
    else:
        constraint.init_(weight, init="nearest")


PLANES_AND_SQUARES = (
    contender("rows that sum to 1", cl.Affine.sum(1.0), 5, place=_place),
    contender("non-negative", cl.NonNegative(), 6, place=_place),
    contender("simplex rows", cl.Simplex(), 6, place=_place),
)


def _sums_to_one(row: Tensor) -> Tensor:
    return row.sum() - 1


def _groups_of_rows(w: Tensor) -> Tensor:
    """Squared norms of 64 groups of rows, at half of what fresh weights have."""
    return w.reshape(64, -1).square().sum(1) - w.numel() / 64 * 0.02**2 / 2


def _general(method: str, constraint: cl.Implicit) -> Contender:
    # its solves look at their residuals on the host, so that no step can be captured
    return Contender(method, "colangevin", build(constraint, 2, place=_place), None)


#: constraints written as a function g
GENERAL_ROWS = _general("g of a row: sums to 1", cl.Implicit(_sums_to_one, over="rows"))
GENERAL_ENTRIES = _general("g of an entry: >= 0", cl.Implicit(torch.neg, inequality=True, over="entries"))
GENERAL_WEIGHT = _general("g of the weight: 64 components", cl.Implicit(_groups_of_rows))
