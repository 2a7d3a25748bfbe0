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
    r"""The temperature that the momenta of each parameter have now, to compare with the one asked for.

    It is $|p|^2$ per degree of freedom, averaged over copies. One value fluctuates; at equilibrium the
    average over time is the temperature. `Monitor` takes that average.

    Args:
        optimizer: any optimizer of this library, also in a wrapper such as Accelerate's.

    Returns:
        Name to kinetic temperature, for parameters that have a momentum; NaN where nothing can move, and for
        optimizers that have no temperature: their momentum is an average of gradients.

    Examples:
        >>> model = nn.Linear(3, 2)
        >>> optimizer = cl.CoLud(model.named_parameters(), 0.1, friction=1.0, temperature=0.5)
        >>> model(torch.ones(1, 3)).sum().backward()
        >>> optimizer.step()
        >>> found = cl.diagnostics.kinetic_temperature(optimizer)
        >>> found["weight"] > 0
        True
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
        Shape (copies,), 0 before the first step; None for overdamped dynamics, and for preconditioned steps,
        whose momentum has no temperature.
    """
    dynamics = optimizer._dynamics(place.group, f"param_groups[{place.number}]")
    if not isinstance(dynamics, Underdamped):
        return None
    if place.p is None:
        return place.q.new_zeros(len(place.q))
    return dynamics.rates.energy(place.manifold.squared_norm(place.q, place.p))
