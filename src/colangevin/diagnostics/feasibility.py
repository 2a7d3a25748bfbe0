"""How far weights are from their constraints, and momenta from being cotangent."""

import torch

from colangevin.diagnostics.places import places
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.optim.unwrap import unwrap
from colangevin.surroundings import full_precision

__all__ = ["cotangency", "violation"]


@torch.no_grad()
@full_precision
def violation(optimizer: ConstrainedOptimizer) -> dict[str, float]:
    r"""How far the current weights of each parameter, with their slack, are from its constraint.

    For circle and sphere it is the largest :math:`|\theta^2 + \xi^2 - r^2| / r^2`, for orthogonality the
    largest entry of :math:`|Q^T Q - I|`, for implicit constraints the largest :math:`|g(q)|`.

    Args:
        optimizer: any optimizer of this library, also in a wrapper such as Accelerate's.

    Returns:
        Name to violation, 0 for free parameters.
    """
    return {
        place.name: float(place.violation().max()) if place.weight.numel() else 0.0
        for place in places(unwrap(optimizer))
    }


@torch.no_grad()
@full_precision
def cotangency(optimizer: ConstrainedOptimizer) -> dict[str, float]:
    r"""Largest entry of :math:`J p` of each parameter, relative to the size of its momentum.

    Args:
        optimizer: any optimizer of this library, also in a wrapper such as Accelerate's.

    Returns:
        Name to cotangency error, for parameters that have a momentum.
    """
    return {
        place.name: float(place.cotangency().max())
        for place in places(unwrap(optimizer))
        if place.p is not None
    }
