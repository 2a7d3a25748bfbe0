"""What diagnostics read of a parameter: its manifold, configuration, momentum and gradient."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import Manifold
from colangevin.constraints.dtypes import START_TOLERANCE, state_dtype
from colangevin.dynamics.rates import over_copies, varies
from colangevin.errors import ConvergenceError, label
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.sharded import refuse_sharded, whole

__all__ = ["Place", "places"]


@dataclass(frozen=True)
class Place:
    """One parameter as it is now. Dimension 0 of its tensors counts the copies.

    Attributes:
        name: of the parameter.
        manifold: the one that it is held on.
        weight: the weights, in float64. Weights in 16 bits, which are their configuration rounded, stay so.
        stored: the configuration that the last step stored; None if it stores none.
        trusted: whether the weights are taken to be as the last step left them.
        p: the momentum, in float64; None if there is none.
        number: of its group.
        group: its group.
        grad: its gradient, in float64; None if there is none.
    """

    name: str
    manifold: Manifold
    weight: Tensor
    stored: Tensor | None
    trusted: bool
    p: Tensor | None
    number: int
    group: dict[str, Any]
    grad: Tensor | None

    @cached_property
    def q(self) -> Tensor:
        """The configuration, in float64 so that measuring adds no rounding error.

        A stored configuration is stale where the weight was edited since. There the configuration is made
        from the weight, as the next step will do.

        Raises:
            ConvergenceError: naming the parameter, when an ``Implicit`` weight is too far from its manifold.
        """
        try:
            if self.stored is not None:
                return self._present(self.stored).double()
            weight = self.weight.double()
            return self.manifold.lift(weight) if self.manifold.hidden else self.manifold.read(weight)
        except ConvergenceError as error:
            raise ConvergenceError(f"{label(self.name, self.weight.shape)}: {error}") from None

    def _present(self, stored: Tensor) -> Tensor:
        if self.trusted:
            return stored
        coarse = self.weight.dtype != torch.float64
        return self.manifold.reconcile(self.weight if coarse else self.weight.to(stored.dtype), stored)

    def violation(self) -> Tensor:
        """How far each copy is from its constraint, shape (copies,)."""
        manifold = self.manifold
        try:
            residual = manifold.residual(self.weight, self.q)
        except ConvergenceError:  # the weight is too far from the manifold to have a configuration
            return manifold.violations(self.weight.double())
        if self.trusted or not manifold.stored(self.weight.dtype):
            return residual
        # Copies whose q was made from an edited weight: q satisfies the constraint even if the weight does
        # not, so the weight's own violation counts.
        new = torch.ones_like(residual, dtype=torch.bool)
        if self.stored is not None:
            new = (self.q != self.stored.double()).reshape(len(self.q), -1).any(1)
        return torch.where(new, residual.maximum(manifold.violations(self.weight.double())), residual)

    def cotangency(self) -> Tensor:
        """How far each copy's momentum is from being cotangent, shape (copies,); 0 without a momentum."""
        if self.p is None or not self.p.numel():
            return self.weight.new_zeros(len(self.weight))
        # The error is relative to |p|, and the square of a tiny p underflows. So scale p first.
        size = self.p.abs().reshape(len(self.p), -1).amax(1).view(-1, *[1] * (self.p.dim() - 1))
        return self.manifold.cotangency(self.q, torch.where(size > 0, self.p / size, self.p))

    @property
    def freedom(self) -> int:
        """Degrees of freedom of one copy."""
        return self.manifold.degrees_of_freedom

    def option(self, name: str) -> Tensor:
        """An option of the group as one number for each copy, shape (copies,)."""
        value, like = self.group[name], self.weight
        if isinstance(value, Tensor):
            return value.to(device=like.device, dtype=torch.float64).reshape(-1).expand(len(like)).clone()
        # full fills in on the device; a copy from the host would wait for the device
        return torch.full((len(like),), value, dtype=torch.float64, device=like.device)

    def force(self) -> Tensor | None:
        """The gradient of what is minimised, weight decay included, in the coordinates of q."""
        if self.grad is None:
            return None
        grad = -self.grad if self.group["maximize"] else self.grad
        decay = self.group["weight_decay"]
        if isinstance(decay, Tensor) or decay:
            weight = self.weight.double()
            grad = grad + (over_copies(decay, weight) if varies(decay) else decay) * weight
        return self.manifold.covector(self.q, grad)


def places(optimizer: ConstrainedOptimizer) -> Iterator[Place]:
    """The :class:`Place` of every parameter, but for frozen ones in a dtype that no step is taken in.

    Parameters that a constraint holds together have one place, with their names behind one another.

    Args:
        optimizer: any optimizer of this library.

    Yields:
        The parameters, in the order of their groups.
    """
    trusted = _trusted(optimizer)
    for number, group in enumerate(optimizer.param_groups):
        for unit in optimizer._units(number):
            for name, parameter in unit.named:
                refuse_sharded(parameter, name)
            parameter = unit.first
            if parameter.dtype not in START_TOLERANCE:
                continue  # frozen: no step is taken in its dtype
            grad = unit.gradient
            weight = whole(unit.weight.detach())
            weight = weight if group["replicas"] else weight.unsqueeze(0)
            manifold = group["constraint"].on(weight.shape[1:])
            weight = weight.double() if weight.dtype == state_dtype(weight.dtype) else weight
            configured = (weight.shape[0], *manifold.configuration_shape)
            state = optimizer.state.get(parameter, {})
            momentum, position = (
                None if key not in state else whole(state[key]) for key in ("momentum", "position")
            )
            yield Place(
                unit.name,
                manifold,
                weight,
                stored=None if position is None else position.reshape(configured),
                trusted=id(parameter) in trusted,
                p=None if momentum is None else momentum.double().reshape(configured),
                number=number,
                group=group,
                grad=None if grad is None else whole(grad.detach()).double().view(weight.shape),
            )


def _trusted(optimizer: ConstrainedOptimizer) -> set[int]:
    """Parameters that are taken to be as the last step left them.

    On a device these are all that torch's version counter does not show as edited: a comparison with the
    stored configuration would wait for the device. On the CPU there are none: the comparison is cheap there,
    and finds edits that the counter does not show.

    Returns:
        The ids of the parameters.
    """
    plan = optimizer._plan
    if plan is None or not any(entry.parameter.device.type != "cpu" for entry in plan.active):
        return set()
    edited = {id(entry.parameter) for entry in plan.edited()}
    return {id(e.parameter) for e in plan.active if e.parameter.device.type != "cpu"} - edited
