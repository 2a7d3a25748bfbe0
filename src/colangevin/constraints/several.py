"""Several weights as one: their entries one behind the other, for a constraint that holds them together."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["joined", "joined_gradients", "parted"]


def joined(weights: Sequence[Tensor], *, replicas: bool) -> Tensor:
    """Several weights as one flat weight; of stacks of weights one flat weight a copy.

    Args:
        weights: of one device.
        replicas: whether dimension 0 of each counts copies.

    Returns:
        A tensor of shape (entries,) or (copies, entries).
    """
    kept = int(replicas)
    # not reshape(..., -1), which is ambiguous for a weight without entries
    flat = [each.detach().reshape(*each.shape[:kept], math.prod(each.shape[kept:])) for each in weights]
    return torch.cat(flat, dim=-1)


def joined_gradients(parameters: Sequence[Tensor], *, replicas: bool) -> Tensor | None:
    """The gradients of several parameters as one. A parameter without one has zero, unless all have none.

    Args:
        parameters: of one device.
        replicas: whether dimension 0 of each counts copies.

    Returns:
        A tensor as :func:`joined` makes it, or None. A sparse gradient is returned as it is, to be refused.
    """
    if all(each.grad is None for each in parameters):
        return None
    grads = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
    sparse = [grad for grad in grads if grad.layout is not torch.strided]
    return sparse[0] if sparse else joined(grads, replicas=replicas)


def parted(flat: Tensor, shapes: Sequence[Sequence[int]]) -> list[Tensor]:
    """What :func:`joined` was given, as parts of its result.

    Args:
        flat: whose last dimension counts the entries of all weights.
        shapes: of the weights, without a dimension that counts copies.

    Returns:
        The weights.
    """
    parts = flat.split([math.prod(shape) for shape in shapes], dim=-1)
    return [part.reshape((*flat.shape[:-1], *shape)) for part, shape in zip(parts, shapes, strict=True)]
