"""CoLod: constrained overdamped Langevin dynamics."""

from typing import Any

from torch import Tensor

from colangevin.dynamics.overdamped import Overdamped
from colangevin.optim.base import ConstrainedOptimizer, Params
from colangevin.optim.checks import number

__all__ = ["CoLod"]


class CoLod(ConstrainedOptimizer):
    r"""Train or sample under constraints without momentum: a gradient step, then a projection.

    Choose it where SGD without momentum does well, and for small models. `CoLud` has momentum, and
    `ConstrainedSGD` is this method in SGD's words. The method is constrained overdamped Langevin dynamics;
    the paper calls it c-CoLod on circles and o-CoLod under orthogonality.

    $$
    \bar q = q - h\,\nabla V(q) + \sqrt{2\tau h}\,R, \qquad q \leftarrow \text{projection of } \bar q
    \text{ onto } \{g = 0\},
    $$

    with step size $h$ (`lr`), temperature $\tau$ (`temperature`) and R standard normal. At $\tau = 0$ a free
    parameter takes the step of `torch.optim.SGD` without momentum. The temperature is in units of the loss:
    with a mean loss over N data, `temperature=T / N` samples the Bayes posterior at temperature T.

    There is no momentum to cycle, so `OneCycleLR` and `CyclicLR` need `cycle_momentum=False`. In a group of n
    replicas `lr`, `temperature` and `weight_decay` may be tensors of shape (n,), one number for each.

    Leimkuhler et al. 2021, Eqs. 7 and 41, Algorithm 1.

    Args:
        params: parameters, named parameters or groups, for instance from `colangevin.constrain`.
        lr: the step size h.
        temperature: the temperature.
        weight_decay: this times the weight is added to the gradient, as in torch.
        seed: of the noise; None draws one from torch's generator when noise is first needed.
        maximize: whether to follow the gradient up.
        foreach: accepted for calls written for torch's optimizers, and ignored: a weight's device decides
            which kernels move it. See `docs/native.md`.
        fused: accepted and ignored, as `foreach`.

    Raises:
        ConstraintError: for an option out of range or a parameter its constraint cannot hold.

    Examples:
        >>> model = nn.Linear(4, 3)
        >>> groups = cl.constrain(model, {"weight": cl.Circle(1.0)})
        >>> optimizer = cl.CoLod(groups, lr=0.05, temperature=1e-4, seed=0)
        >>> model(torch.ones(1, 4)).sum().backward()
        >>> optimizer.step()
        >>> bool(model.weight.abs().max() <= 1.0)
        True
    """

    _options = ("lr", "temperature")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor,
        *,
        temperature: float | Tensor = 0.0,
        weight_decay: float | Tensor = 0.0,
        seed: int | None = None,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
    ) -> None:
        options = {
            "lr": lr,
            "temperature": temperature,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, options, seed)

    def _dynamics(self, group: dict[str, Any], where: str) -> Overdamped:
        return Overdamped(number(group, "lr", where=where), number(group, "temperature", where=where))
