"""ConstrainedSGD: constrained Langevin dynamics with the options of `torch.optim.SGD`."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from colangevin.dynamics.overdamped import Overdamped
from colangevin.dynamics.rates import sgd_rates, varies
from colangevin.dynamics.splitting import parse
from colangevin.dynamics.underdamped import Underdamped
from colangevin.errors import ConstraintError
from colangevin.optim.base import ConstrainedOptimizer, Params
from colangevin.optim.checks import number

__all__ = ["ConstrainedSGD"]


class ConstrainedSGD(ConstrainedOptimizer):
    r"""A drop-in for `torch.optim.SGD` that holds constrained weights on their manifold.

    Choose it to train with the learning rate, momentum and schedule that SGD has: both numbers mean what they
    mean there, and without constraints and noise this is SGD. Schedulers that cycle the momentum,
    `OneCycleLR` and `CyclicLR`, work as with SGD.

    Without momentum it is `CoLod` with $h = \mathrm{lr}$. With momentum $\mu$ it is `CoLud` in the order OBA,
    with $h^2 = \mathrm{lr}$ and $e^{-\gamma h} = \mu$. To sample rather than to train, use `CoLud` with
    `splitting="BAOAB"`. With momentum and noise this class samples at a temperature that is low by the factor
    $(1 + \mu)/2$, whatever the learning rate.

    In a group of n replicas `lr`, `temperature` and `weight_decay` may be tensors of shape (n,), one number
    for each.

    Leimkuhler et al. 2021, section "Discretization of Constrained Langevin Dynamics".

    Args:
        params: parameters, named parameters or groups, for instance from `colangevin.constrain`.
        lr: the learning rate.
        momentum: the momentum, at least 0 and below 1.
        temperature: in units of the loss; T / N for a mean loss over N data.
        weight_decay: this times the weight is added to the gradient, as in torch.
        seed: of the noise; None draws one from torch's generator when noise is first needed.
        maximize: whether to follow the gradient up.
        dampening: SGD's; must be 0.
        nesterov: SGD's; must be False.
        foreach: accepted for calls written for torch's optimizers, and ignored: a weight's device decides
            which kernels move it. See `docs/native.md`.
        fused: accepted and ignored, as `foreach`.

    Raises:
        ConstraintError: for an option out of range or a parameter its constraint cannot hold.

    Examples:
        >>> model = nn.Linear(4, 3)
        >>> groups = cl.constrain(model, {"weight": cl.Orthogonal()})
        >>> optimizer = cl.ConstrainedSGD(groups, 0.1, 0.9, weight_decay=1e-4)
        >>> model(torch.ones(1, 4)).sum().backward()
        >>> optimizer.step()
        >>> max(cl.diagnostics.violation(optimizer).values()) < 1e-5
        True
    """

    _options = ("lr", "momentum", "temperature")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor,
        momentum: float = 0.0,
        *,
        temperature: float | Tensor = 0.0,
        weight_decay: float | Tensor = 0.0,
        seed: int | None = None,
        maximize: bool = False,
        dampening: float = 0.0,
        nesterov: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
    ) -> None:
        _classical({"dampening": dampening, "nesterov": nesterov}, "ConstrainedSGD")
        options = {
            "lr": lr,
            "momentum": momentum,
            "temperature": temperature,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, options, seed)

    def _dynamics(self, group: dict[str, Any], where: str) -> Overdamped | Underdamped:
        _classical(group, where)
        lr = number(group, "lr", where=where)
        momentum = number(group, "momentum", below=1, where=where)
        if varies(momentum):
            raise ConstraintError(
                f"momentum in {where}: a tensor of shape {tuple(momentum.shape)}; replicas share one number, "
                "since 0 is another method. Use CoLud, whose friction may differ between replicas."
            )
        tau = number(group, "temperature", where=where)
        if float(momentum) == 0:
            return Overdamped(lr, tau)
        return Underdamped(parse("OBA"), sgd_rates(lr, float(momentum), tau))


def _classical(options: Mapping[str, Any], where: str) -> None:
    """Raise if options ask for a momentum of SGD that no Langevin dynamics has."""
    for option in ("dampening", "nesterov"):
        if options.get(option):
            raise ConstraintError(
                f"{option}={options[option]!r} in {where}: constrained dynamics has SGD's classical momentum "
                f"alone. Leave {option} out, or use torch.optim.SGD for parameters without a constraint."
            )
