"""The kinetic temperature: that of the momenta."""

import math

import torch
from torch import Tensor

from colangevin.diagnostics.places import Place, places
from colangevin.dynamics.underdamped import Underdamped
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.optim.unwrap import unwrap
from colangevin.surroundings import full_precision

__all__ = ["kinetic_energy", "kinetic_temperature"]


@torch.no_grad()
@full_precision
def kinetic_temperature(optimizer: ConstrainedOptimizer) -> dict[str, float]:
    r"""Kinetic temperature of each parameter now: :math:`|p|^2` per degree of freedom, averaged over copies.

    At equilibrium its average over time is the temperature.

    Args:
        optimizer: any optimizer of this library, also in a wrapper such as Accelerate's.

    Returns:
        Name to kinetic temperature, for parameters that have a momentum; NaN where nothing can move.
    """
    temperatures = {}
    optimizer = unwrap(optimizer)
    for place in places(optimizer):
        if place.p is None:
            continue
        energy = kinetic_energy(optimizer, place)
        if energy is None or place.freedom == 0:
            temperatures[place.name] = math.nan
        else:
            temperatures[place.name] = float(energy.mean()) / place.freedom
    return temperatures


def kinetic_energy(optimizer: ConstrainedOptimizer, place: Place) -> Tensor | None:
    """The squared momentum of each copy, in the paper's scale: its mean is tau per degree of freedom.

    Args:
        optimizer: the one that moves the parameter.
        place: the parameter.

    Returns:
        Shape (copies,), 0 before the first step; None for overdamped dynamics.
    """
    dynamics = optimizer._dynamics(place.group, f"param_groups[{place.number}]")
    if not isinstance(dynamics, Underdamped):
        return None
    if place.p is None:
        return place.q.new_zeros(len(place.q))
    return dynamics.rates.energy(place.manifold.squared_norm(place.q, place.p))
