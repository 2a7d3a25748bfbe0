"""What a run looks like from outside, parameter by parameter."""

from collections.abc import Iterator

import torch
from torch import Tensor

from colangevin.constraints import Constraint, Orthogonal
from colangevin.constraints.base import state_dtype
from colangevin.integrators.underdamped import Underdamped
from colangevin.optim.base import ConstrainedOptimizer

__all__ = ["cotangency", "fallbacks", "kinetic_temperature", "violation"]


@torch.no_grad()
def violation(optimizer: ConstrainedOptimizer) -> dict[str, float]:
    r"""Largest violation of each parameter's constraint, slack included.

    Relative for circle and sphere, :math:`|\theta^2 + \xi^2 - r^2| / r^2`; the largest entry of
    :math:`|Q^T Q - I|` for orthogonality; relative to the size of :math:`J q` for implicit constraints.

    Args:
        optimizer: any optimizer of this library.

    Returns:
        Name to violation, 0 for free parameters.
    """
    return {
        name: float(constraint.residual(weight, q).max()) if weight.numel() else 0.0
        for name, constraint, weight, q, _, _ in _walk(optimizer)
    }


@torch.no_grad()
def cotangency(optimizer: ConstrainedOptimizer) -> dict[str, float]:
    r"""Largest entry of :math:`J p` of each parameter, relative to the size of its momentum.

    Args:
        optimizer: any optimizer of this library.

    Returns:
        Name to cotangency error, for parameters that have a momentum.
    """
    return {
        name: float(constraint.cotangency(q, p).max())
        for name, constraint, _, q, p, _ in _walk(optimizer)
        if p is not None
    }


@torch.no_grad()
def kinetic_temperature(optimizer: ConstrainedOptimizer) -> dict[str, float]:
    r"""Mean of :math:`|p|^2` per degree of freedom of each parameter.

    At equilibrium its average over time is the temperature.

    Args:
        optimizer: any optimizer of this library.

    Returns:
        Name to kinetic temperature, for parameters that have a momentum; NaN where nothing can move.
    """
    temperatures = {}
    for name, constraint, weight, q, p, group in _walk(optimizer):
        if p is None:
            continue
        dynamics = optimizer._dynamics(optimizer.param_groups[group], f"param_groups[{group}]")
        freedom = constraint.degrees_of_freedom(weight.shape[1:])
        if not isinstance(dynamics, Underdamped) or freedom == 0:
            temperatures[name] = float("nan")
            continue
        temperatures[name] = dynamics.rates.temperature(constraint.squared_norm(q, p) / freedom)
    return temperatures


def fallbacks(optimizer: ConstrainedOptimizer) -> int:
    """How many steps of matrices under orthogonality ended with the polar factor.

    That is where the paper's quasi-Newton iteration does not converge, because the step is too long. Counted
    over all matrices since the optimizer was built; loading a state may begin anew.

    Args:
        optimizer: any optimizer of this library.

    Returns:
        The count; on CUDA, reading it waits for the device.
    """
    held = {id(group["constraint"]): group["constraint"] for group in optimizer.param_groups}
    plain = sum(each.fallbacks for each in held.values() if isinstance(each, Orthogonal))
    plan = optimizer._plan
    return plain + (sum(fused.fallbacks() for fused in plan.fused) if plan is not None else 0)


def _walk(
    optimizer: ConstrainedOptimizer,
) -> Iterator[tuple[str, Constraint, Tensor, Tensor, Tensor | None, int]]:
    """Name, constraint, stacked weight, configuration, momentum and group of every parameter."""
    for number, group in enumerate(optimizer.param_groups):
        for name, parameter in zip(optimizer._names(number), group["params"], strict=True):
            weight = parameter.detach() if group["replicas"] else parameter.detach().unsqueeze(0)
            constraint = group["constraint"].on(weight.shape[1:])
            state = optimizer.state.get(parameter, {})
            # work in float64: what is measured is the weights, not the measuring
            weight = weight.double() if weight.dtype == state_dtype(weight.dtype) else weight
            configured = (weight.shape[0], *constraint.configuration_shape(weight.shape[1:]))
            momentum = state["momentum"].double().reshape(configured) if "momentum" in state else None
            if "position" in state:
                q = state["position"].double().reshape(configured)
            elif constraint.hidden:
                q = constraint.lift(weight.double())
            else:
                q = constraint.read(weight.double())
            yield name, constraint, weight, q, momentum, number
