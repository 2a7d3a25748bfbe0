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
    r"""How far the weights of each parameter are from its constraint now, with their slack.

    Print it to see that a run holds its constraints: rounding alone is about 1e-7 in float32. For circle and
    sphere it is the largest $|\theta^2 + \xi^2 - r^2| / r^2$, for orthogonality the largest entry of
    $|Q^T Q - I|$, for implicit constraints the largest $|g(q)|$.

    Args:
        optimizer: any optimizer of this library, also in a wrapper such as Accelerate's.

    Returns:
        Name to violation, 0 for free parameters. Parameters that a constraint holds together have one, under
        their names one behind the other: `"encoder.weight, decoder.weight"`.

    Examples:
        >>> model = nn.Linear(3, 2)
        >>> optimizer = cl.CoLod(cl.constrain(model, {"weight": cl.Orthogonal()}), lr=0.1)
        >>> found = cl.diagnostics.violation(optimizer)
        >>> found["weight"] < 1e-5, found["bias"]
        (True, 0.0)
    """
    return {
        place.name: float(place.violation().max()) if place.weight.numel() else 0.0
        for place in places(unwrap(optimizer))
    }


@torch.no_grad()
@full_precision
def cotangency(optimizer: ConstrainedOptimizer) -> dict[str, float]:
    r"""How far the momentum of each parameter is from being tangent to its constraint now.

    The error is the largest entry of $J p$, where J is the Jacobian of the constraint, relative to the size
    of the momentum p. As a violation, it is rounding alone: about 1e-7 in float32.

    Args:
        optimizer: any optimizer of this library, also in a wrapper such as Accelerate's.

    Returns:
        Name to cotangency error, for parameters that have a momentum.

    Examples:
        >>> model = nn.Linear(3, 2)
        >>> groups = cl.constrain(model, {"weight": cl.Orthogonal()})
        >>> optimizer = cl.CoLud(groups, 0.1, friction=1.0)
        >>> model(torch.ones(1, 3)).sum().backward()
        >>> optimizer.step()
        >>> cl.diagnostics.cotangency(optimizer)["weight"] < 1e-5
        True
    """
    return {
        place.name: float(place.cotangency().max())
        for place in places(unwrap(optimizer))
        if place.p is not None
    }
