"""CoLud: constrained underdamped Langevin dynamics."""

from typing import Any

from torch import Tensor

from colangevin.dynamics.rates import langevin_rates
from colangevin.dynamics.splitting import parse
from colangevin.dynamics.underdamped import Underdamped
from colangevin.optim.base import ConstrainedOptimizer, Params
from colangevin.optim.checks import number

__all__ = ["CoLud"]


class CoLud(ConstrainedOptimizer):
    r"""Train or sample under constraints with momentum; to sample, use `splitting="BAOAB"`.

    Choose it to sample, and to train with the numbers of the paper. `ConstrainedSGD` is this method in SGD's
    words. Note that `lr` is h: SGD's learning rate is its square, so 0.3 here stands for 0.09 there. The
    method is constrained underdamped Langevin dynamics; the paper calls it c-CoLud on circles and o-CoLud
    under orthogonality.

    $$
    O: p \leftarrow \Pi_q(e^{-\gamma h} p + \sqrt{\tau(1 - e^{-2\gamma h})}\,R), \quad
    B: p \leftarrow \Pi_q(p - h\,\nabla V(q)), \quad
    A: (q, p) \leftarrow \text{geodesic flow for time } h,
    $$

    with step size $h$ (`lr`), friction $\gamma$ (`friction`) and temperature $\tau$ (`temperature`), in the
    order of `splitting`. At $\tau = 0$ a free parameter under OBA takes the step of `torch.optim.SGD` with
    learning rate $h^2$ and momentum $e^{-\gamma h}$. The temperature is in units of the loss: with a mean
    loss over N data, `temperature=T / N` samples the Bayes posterior at temperature T. OBA and BOA sample to
    first order in h, BAOAB to second.

    The option is `friction`, not a momentum to cycle, so `OneCycleLR` and `CyclicLR` need
    `cycle_momentum=False`; `colangevin.schedules` changes the friction. In a group of n replicas `lr`,
    `friction`, `temperature` and `weight_decay` may be tensors of shape (n,), one number for each.

    Leimkuhler et al. 2021, Eqs. 12 and 13, Algorithm 2.

    Args:
        params: parameters, named parameters or groups, for instance from `colangevin.constrain`.
        lr: the step size h.
        friction: the friction.
        temperature: the temperature.
        splitting: the order of the letters A, B and O, each at least once. A letter's share of the step is 1
            over how often it occurs. A B that follows an A needs the gradient at the new position, so `step`
            needs a closure, unless the string begins and ends with B.
        weight_decay: this times the weight is added to the gradient, as in torch.
        seed: of the noise; None draws one from torch's generator when noise is first needed.
        maximize: whether to follow the gradient up.
        foreach: accepted for calls written for torch's optimizers, and ignored: a weight's device decides
            which kernels move it. See `docs/native.md`.
        fused: accepted and ignored, as `foreach`.

    Raises:
        ConstraintError: for an option out of range or a parameter its constraint cannot hold.
        SplittingError: for a string that is no splitting.

    Examples:
        >>> model = nn.Linear(4, 3)
        >>> groups = cl.constrain(model, {"weight": cl.Sphere(2.0)})
        >>> tau = cl.posterior_temperature(data=1000)
        >>> optimizer = cl.CoLud(groups, 0.3, friction=1.0, temperature=tau, splitting="BAOAB")
        >>> model(torch.ones(1, 4)).sum().backward()
        >>> optimizer.step()
        >>> list(cl.diagnostics.kinetic_temperature(optimizer))
        ['weight', 'bias']
    """

    _options = ("lr", "friction", "temperature", "splitting")
    _leaves = ("momentum",)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor,
        *,
        friction: float | Tensor,
        temperature: float | Tensor = 0.0,
        splitting: str = "OBA",
        weight_decay: float | Tensor = 0.0,
        seed: int | None = None,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
    ) -> None:
        options = {
            "lr": lr,
            "friction": friction,
            "temperature": temperature,
            "splitting": splitting,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, options, seed)

    def _dynamics(self, group: dict[str, Any], where: str) -> Underdamped:
        rates = langevin_rates(
            number(group, "lr", where=where),
            number(group, "friction", where=where),
            number(group, "temperature", where=where),
        )
        return Underdamped(parse(group["splitting"]), rates)
