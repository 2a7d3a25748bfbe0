"""ConstrainedAdam: the options and steps of `torch.optim.AdamW`, along the constraints."""

from typing import Any

from torch import Tensor

from colangevin.dynamics.preconditioned import Adam
from colangevin.optim.base import ConstrainedOptimizer, Params
from colangevin.optim.checks import fractions, number, positive, without_temperature

__all__ = ["ConstrainedAdam"]


class ConstrainedAdam(ConstrainedOptimizer):
    r"""A drop-in for `torch.optim.AdamW` that holds constrained weights on their manifold.

    Choose it to train a model that one trains with AdamW, such as a transformer. All options mean what they
    mean there, and without constraints this is AdamW. Schedulers that cycle the momentum, `OneCycleLR` and
    `CyclicLR`, work as with AdamW.

    From q with the loss's gradient G,

    $$
    g = \Pi_q\,\mathrm{cov}(G), \quad m \leftarrow \Pi_q (\beta_1 m + (1 - \beta_1) g), \quad
    v \leftarrow \beta_2 v + (1 - \beta_2)\, g \circ g, \quad
    d = \frac{\hat m}{\sqrt{\hat v} + \epsilon}, \quad q \leftarrow A(q, -\Pi_q d, \mathrm{lr}),
    $$

    where $\hat m$ and $\hat v$ are free of the bias of their start and A is the constraint's own drift. Under
    `Circle` all of this is done on the arc, in units of length, so that `lr` is a move of the weight.

    Weight decay is decoupled: it moves a weight by `lr` times `weight_decay` times the weight, along its
    constraint. Under an equality (`Sphere` without slack, `Orthogonal`) the projection takes the decay away,
    since it points off the manifold: leave it 0 there.

    There is no temperature: a step that depends on past gradients leaves no known law invariant. To sample,
    use `CoLud`, `CoLod` or `ConstrainedSGD`.

    In a group of n replicas `lr` and `weight_decay` may be tensors of shape (n,), one number for each.

    Args:
        params: parameters, named parameters or groups, for instance from `colangevin.constrain`.
        lr: the learning rate.
        betas: the decay of the averages of gradients and of their squares, each at least 0 and below 1.
        eps: added to the root of the average square; above 0.
        weight_decay: decoupled weight decay.
        maximize: whether to follow the gradient up.
        temperature: must be 0; here so that asking for one says which optimizers have one.
        foreach: accepted for calls written for torch's optimizers, and ignored.
        fused: accepted and ignored, as `foreach`.

    Raises:
        ConstraintError: for an option out of range or a parameter its constraint cannot hold.

    Examples:
        >>> model = nn.Linear(4, 3)
        >>> groups = cl.constrain(model, {"weight": cl.Sphere(1.0, slack=False)})
        >>> optimizer = cl.ConstrainedAdam(groups, 1e-2)
        >>> model(torch.ones(1, 4)).sum().backward()
        >>> optimizer.step()
        >>> max(cl.diagnostics.violation(optimizer).values()) < 1e-5
        True
    """

    _options = ("lr", "betas", "eps", "temperature", "weight_decay")
    _leaves = ("momentum", "second_moment")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float | Tensor = 0.0,
        *,
        maximize: bool = False,
        temperature: float = 0.0,
        foreach: bool | None = None,
        fused: bool | None = None,
    ) -> None:
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "temperature": temperature,
        }
        super().__init__(params, options, seed=None)

    def _dynamics(self, group: dict[str, Any], where: str) -> Adam:
        without_temperature(group, "ConstrainedAdam", where)
        return Adam(
            number(group, "lr", where=where),
            number(group, "weight_decay", where=where),
            fractions(group, "betas", where),
            positive(group, "eps", where),
        )
