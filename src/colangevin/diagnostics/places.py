"""Where every parameter of an optimizer is: its configuration, its momentum and what holds it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from colangevin.constraints import Constraint
from colangevin.constraints.base import state_dtype
from colangevin.integrators.rates import over_copies, varies
from colangevin.optim.base import ConstrainedOptimizer

__all__ = ["Place", "places"]


class Place(NamedTuple):
    """One parameter, with the dimension that counts its copies in front."""

    name: str
    constraint: Constraint
    weight: Tensor
    q: Tensor
    p: Tensor | None
    number: int  # of its group
    group: dict[str, Any]
    grad: Tensor | None

    @property
    def freedom(self) -> int:
        """Degrees of freedom of one copy."""
        return self.constraint.degrees_of_freedom(self.weight.shape[1:])

    def option(self, name: str) -> Tensor:
        """A number of the group for each copy, shape (copies,)."""
        value, copies = self.group[name], len(self.q)
        if isinstance(value, Tensor):
            return value.to(self.q).reshape(-1).expand(copies).clone()
        return self.q.new_full((copies,), value)  # on the device, which a copy from the host would wait for

    def force(self) -> Tensor | None:
        """The gradient of what is minimised, weight decay included, in the coordinates of q."""
        if self.grad is None:
            return None
        grad = -self.grad if self.group["maximize"] else self.grad
        decay = self.group["weight_decay"]
        if isinstance(decay, Tensor) or decay:
            weight = self.weight.double()
            grad = grad + (over_copies(decay, weight) if varies(decay) else decay) * weight
        return self.constraint.covector(self.q, grad)


def places(optimizer: ConstrainedOptimizer) -> Iterator[Place]:
    """Every parameter that has entries, in float64: what is measured is the weights, not the measuring.

    Args:
        optimizer: any optimizer of this library.

    Yields:
        The parameters, in the order of their groups.
    """
    for number, group in enumerate(optimizer.param_groups):
        for name, parameter in zip(optimizer._names(number), group["params"], strict=True):
            weight = parameter.detach() if group["replicas"] else parameter.detach().unsqueeze(0)
            constraint = group["constraint"].on(weight.shape[1:])
            state = optimizer.state.get(parameter, {})
            weight = weight.double() if weight.dtype == state_dtype(weight.dtype) else weight
            configured = (weight.shape[0], *constraint.configuration_shape(weight.shape[1:]))
            p = state["momentum"].double().reshape(configured) if "momentum" in state else None
            if "position" in state:
                q = state["position"].double().reshape(configured)
            elif constraint.hidden:
                q = constraint.lift(weight.double())
            else:
                q = constraint.read(weight.double())
            grad = None if parameter.grad is None else parameter.grad.detach().double().view(weight.shape)
            yield Place(name, constraint, weight, q, p, number, group, grad)
