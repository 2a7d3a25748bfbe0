"""ConstrainedMuon: the options and steps of `torch.optim.Muon`, along the constraints."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from colangevin.dynamics.newton_schulz import NewtonSchulz
from colangevin.dynamics.preconditioned import Adam, Muon
from colangevin.errors import ConstraintError
from colangevin.optim.base import ConstrainedOptimizer, Params
from colangevin.optim.checks import fractions, number, positive, without_temperature

__all__ = ["ConstrainedMuon"]

_METHODS = ("muon", "adam")
_ADJUSTMENTS = ("original", "match_rms_adamw", None)
_MOST_STEPS = 99  # as in torch


class ConstrainedMuon(ConstrainedOptimizer):
    r"""A drop-in for `torch.optim.Muon` that holds constrained weights on their manifold.

    Choose it for the hidden matrices of large networks. Without constraints a matrix takes the steps of
    `torch.optim.Muon`. Parameters that are no matrices, such as biases and gains, take those of
    `ConstrainedAdam` in the same optimizer, and so does a group with `"method": "adam"`: give embeddings and
    the output layer such a group, with a learning rate of its own. Convolution kernels are flattened to
    (n_out, rest). Parameters that one constraint holds together are one vector, and take Adam's steps too.

    From q with the loss's gradient G,

    $$
    g = \Pi_q\,\mathrm{cov}(G), \quad m \leftarrow \Pi_q(\mu m + (1 - \mu) g), \quad
    \bar m = \mu m + (1 - \mu) g, \quad d = \mathrm{msign}(\bar m), \quad
    q \leftarrow A(q, -\Pi_q d, \mathrm{lr}),
    $$

    where msign brings singular values near 1 by Newton-Schulz steps in bfloat16, and A is the constraint's
    own drift. Without `nesterov`, $\bar m = m$. Two constraints give `lr` the meaning of an angle:

    - `Sphere`: d is scaled so that rows turn by the angle `lr` on average; begin with 0.02.
    - `Orthogonal`: d turns the matrix by `lr`. A square Q takes $d = Q\,\mathrm{msign}(Q^T \bar m)$, which is
      the steepest tangent direction in the spectral norm.

    Elsewhere `lr` is multiplied by a number that depends on the weight's shape, as `adjust_lr_fn` says.

    Weight decay is decoupled: it moves a weight by `lr` times `weight_decay` times the weight, along its
    constraint. Under an equality (`Sphere` without slack, `Orthogonal`) the projection takes the decay away,
    since it points off the manifold: leave it 0 there.

    There is no temperature: a step that depends on past gradients leaves no known law invariant. To sample,
    use `CoLud`, `CoLod` or `ConstrainedSGD`.

    In a group of n replicas `lr` and `weight_decay` may be tensors of shape (n,), one number for each.

    Args:
        params: parameters, named parameters or groups, for instance from `colangevin.constrain`.
        lr: the learning rate.
        momentum: the decay of the average of gradients, at least 0 and below 1.
        nesterov: whether the average looks ahead by one gradient.
        weight_decay: decoupled weight decay.
        ns_coefficients: a, b and c of the Newton-Schulz polynomial.
        ns_steps: how many Newton-Schulz steps, from 1 to 99.
        eps: the smallest norm that a matrix is divided by before them.
        adjust_lr_fn: `"original"` (or None) multiplies `lr` by $\sqrt{\max(1, r/c)}$ for r rows and c
            columns, `"match_rms_adamw"` by $0.2 \sqrt{\max(r, c)}$, so that AdamW's rates fit.
        method: of a group: `"muon"`, or `"adam"` for Adam's steps of all its parameters.
        adam_betas: of parameters under Adam, as `betas` of `ConstrainedAdam`.
        adam_eps: of parameters under Adam, as `eps` of `ConstrainedAdam`.
        maximize: whether to follow the gradient up.
        temperature: must be 0; here so that asking for one says which optimizers have one.
        foreach: accepted for calls written for torch's optimizers, and ignored.
        fused: accepted and ignored, as `foreach`.

    Raises:
        ConstraintError: for an option out of range or a parameter its constraint cannot hold.

    Examples:
        >>> model = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 4), nn.Linear(4, 8))
        >>> sphere = cl.Sphere(1.0, slack=False)
        >>> hidden = cl.constrain(model[1], {"weight": sphere})
        >>> ends = [*model[0].named_parameters("embedding"), *model[2].named_parameters("output")]
        >>> optimizer = cl.ConstrainedMuon([*hidden, {"params": ends, "method": "adam", "lr": 1e-3}], 0.02)
        >>> model(torch.arange(3)).sum().backward()
        >>> optimizer.step()
        >>> sphere.violation(model[1].weight) < 1e-5
        True
    """

    _options = (
        "lr",
        "momentum",
        "nesterov",
        "weight_decay",
        "ns_coefficients",
        "ns_steps",
        "eps",
        "adjust_lr_fn",
        "method",
        "adam_betas",
        "adam_eps",
        "temperature",
    )
    _leaves = ("momentum",)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor,
        momentum: float = 0.95,
        nesterov: bool = True,
        weight_decay: float | Tensor = 0.0,
        *,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),  # torch.optim.Muon's
        ns_steps: int = 5,
        eps: float = 1e-7,
        adjust_lr_fn: str | None = "original",
        method: str = "muon",
        adam_betas: tuple[float, float] = (0.9, 0.999),
        adam_eps: float = 1e-8,
        maximize: bool = False,
        temperature: float = 0.0,
        foreach: bool | None = None,
        fused: bool | None = None,
    ) -> None:
        options = {
            "lr": lr,
            "momentum": momentum,
            "nesterov": nesterov,
            "weight_decay": weight_decay,
            "ns_coefficients": ns_coefficients,
            "ns_steps": ns_steps,
            "eps": eps,
            "adjust_lr_fn": adjust_lr_fn,
            "method": method,
            "adam_betas": adam_betas,
            "adam_eps": adam_eps,
            "maximize": maximize,
            "temperature": temperature,
        }
        super().__init__(params, options, seed=None)

    def _dynamics(self, group: dict[str, Any], where: str) -> Adam | Muon:
        without_temperature(group, "ConstrainedMuon", where)
        lr, decay = number(group, "lr", where=where), number(group, "weight_decay", where=where)
        adam = Adam(lr, decay, fractions(group, "adam_betas", where), positive(group, "adam_eps", where))
        momentum = number({**group, "replicas": 0}, "momentum", below=1, where=where)
        _one_of(group, "nesterov", (True, False), where)
        _one_of(group, "adjust_lr_fn", _ADJUSTMENTS, where)
        _one_of(group, "method", _METHODS, where)
        iteration = _newton_schulz(group, where)
        if group["method"] == "adam":
            return adam
        return Muon(lr, decay, float(momentum), group["nesterov"], iteration, group["adjust_lr_fn"], adam)


def _newton_schulz(group: Mapping[str, Any], where: str) -> NewtonSchulz:
    """The iteration of a group's options."""
    steps, given = group["ns_steps"], group["ns_coefficients"]
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= _MOST_STEPS:
        raise ConstraintError(
            f"ns_steps={steps!r} in {where}: must be a whole number from 1 to {_MOST_STEPS}. Leave it out "
            "for 5."
        )
    try:
        a, b, c = map(float, given)
        if not all(map(math.isfinite, (a, b, c))):
            raise ValueError
    except (TypeError, ValueError):
        raise ConstraintError(
            f"ns_coefficients={given!r} in {where}: must be three finite numbers. Leave it out for those of "
            "torch.optim.Muon."
        ) from None
    return NewtonSchulz((a, b, c), steps, positive(group, "eps", where))


def _one_of(group: Mapping[str, Any], option: str, choices: tuple[object, ...], where: str) -> None:
    """Raise unless an option is one of some choices."""
    if group[option] not in choices:
        words = " or ".join(map(repr, choices))
        raise ConstraintError(f"{option}={group[option]!r} in {where}: must be {words}.")
