"""The mean of the weights along a run, put back onto their manifolds."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.dtypes import state_dtype
from colangevin.errors import ConstraintError
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.optim.names import stripped
from colangevin.optim.projection import nearest
from colangevin.optim.unwrap import unwrap
from colangevin.sampling.memory import Weights
from colangevin.sharded import spread

__all__ = ["RunningMean"]


class RunningMean:
    r"""A running mean of the weights along a run, plain or exponential, put back onto their manifolds.

    The plain mean of n weights is that of stochastic weight averaging (Izmailov et al. 2018). With a decay d
    the mean forgets. After n updates it is

    $$
    \bar w_n = \frac{1 - d}{1 - d^n} \sum_{k=1}^{n} d^{\,n-k} w_k.
    $$

    The factor in front makes it a convex combination of the weights that were visited, from the first update
    on. So there is no bias towards zero, and no weight counts more than a later one. (The exponential average
    of `torch.optim.swa_utils` starts at the first weight, which keeps the share $d^{n-1}$.) The mean
    is over about the last $1/(1 - d)$ updates; with fewer, it is nearly the plain mean.

    The mean of points of a curved manifold lies off the manifold, so `weights` projects it. Rows are
    scaled to their norm, matrices are replaced by their polar factor, and weights under `Implicit` move to
    a point with g = 0. Weights under a bound need no projection: the set within a bound is convex. An update
    is one pass over the weights, on their device.

    Args:
        optimizer: whose parameters to average; they must be named, as those of
            `colangevin.constrain` are.
        decay: d, at least 0 and below 1; None for the plain mean.

    Raises:
        ConstraintError: when a group's parameters have no names, or for a decay out of range.
        TypeError: for another library's optimizer.

    Examples:
        >>> model = nn.Linear(3, 3)
        >>> optimizer = cl.CoLod(cl.constrain(model, {"weight": cl.Orthogonal()}), 0.1, temperature=0.01)
        >>> mean = cl.RunningMean(optimizer, decay=0.9)
        >>> for _ in range(5):
        ...     model(torch.ones(2, 3)).square().sum().backward()
        ...     optimizer.step()
        ...     mean.update()
        >>> cl.Orthogonal().violation(mean.weights()["weight"]) < 1e-6
        True
        >>> model.load_state_dict(mean.weights())
        <All keys matched successfully>
    """

    def __init__(self, optimizer: ConstrainedOptimizer, *, decay: float | None = None) -> None:
        optimizer = unwrap(optimizer)
        if decay is not None and (
            isinstance(decay, bool) or not isinstance(decay, int | float) or not 0 <= decay < 1
        ):
            raise ConstraintError(
                f"decay={decay!r}: must be a number, at least 0 and below 1, or None for the plain mean."
            )
        for position, group in enumerate(optimizer.param_groups):
            if group.get("param_names") is None:
                raise ConstraintError(
                    f"param_groups[{position}]: its parameters have no names to return their means by. Build "
                    "the optimizer from colangevin.constrain(model, rules) or model.named_parameters()."
                )
        self.optimizer = optimizer
        self.decay = decay
        self.count = 0
        self._means: Weights = {}

    @torch.no_grad()
    def update(self) -> None:
        """Add the current weights to the mean."""
        self.count += 1
        share = self._share()
        for name, parameter in self._parameters():
            weight = parameter.detach().to(state_dtype(parameter.dtype))
            if name in self._means:
                self._means[name].lerp_(weight, share)
            else:
                self._means[name] = weight.clone()

    def _share(self) -> float:
        """What the last of the weights counts for: (1 - d) / (1 - d^n), whose limit for d = 1 is 1 / n."""
        if self.decay is None:
            return 1 / self.count
        if not self.decay:
            return 1.0
        # by expm1: near d = 1 the difference would lose most of its digits
        return (1 - self.decay) / -math.expm1(self.count * math.log(self.decay))

    @torch.no_grad()
    def weights(self) -> Weights:
        """The projected means by name, for `model.load_state_dict(..., strict=False)`.

        Names are those in the optimizer's groups. From `colangevin.constrain` they are those of the
        model itself, so load them into the model, not into a wrapper such as `DistributedDataParallel`.
        Buffers are not averaged. For a model with BatchNorm, call `torch.optim.swa_utils.update_bn`.

        Returns:
            Tensors like the parameters.

        Raises:
            ConstraintError: before the first `update`.
            InfeasibleError: naming the parameter, when its mean has no nearest point.
            ConvergenceError: naming the parameter, when its mean is too far from its manifold.
        """
        if not self.count:
            raise ConstraintError("running mean: update() was never called.")
        projected: Weights = {}
        for number, group in enumerate(self.optimizer.param_groups):
            constraint, replicas = group["constraint"], bool(group["replicas"])
            for unit in self.optimizer._units(number):
                mean = replace(unit, parameters=tuple(self._means[name] for name in unit.names)).weight
                if mean.numel():
                    mean = nearest(constraint, mean, replicas=replicas, name=unit.name)
                pairs = zip(unit.parts(mean), unit.parameters, strict=True)
                weights = tuple(spread(each.to(like.dtype, copy=True), like) for each, like in pairs)
                rounded = replace(unit, parameters=weights).weight
                constraint.check(rounded, replicas=replicas, name=unit.name)
                projected |= zip(unit.names, weights, strict=True)
        return projected

    def _parameters(self) -> list[tuple[str, Tensor]]:
        return [
            (name, parameter)
            for number, group in enumerate(self.optimizer.param_groups)
            for name, parameter in zip(self.optimizer._names(number), group["params"], strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """The means before projection, the number of updates and the decay."""
        means = {name: mean.clone() for name, mean in self._means.items()}
        return {"count": self.count, "decay": self.decay, "means": means}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where `state_dict` was called.

        Args:
            state_dict: what `state_dict` returned.

        Raises:
            ConstraintError: when the state dict is of another decay or not of these parameters. Nothing has
                changed then.
        """
        count, means = state_dict.get("count"), state_dict.get("means")
        if isinstance(count, bool) or not isinstance(count, int) or count < 0 or not isinstance(means, dict):
            raise ConstraintError(
                f"state_dict: count={count!r} must be a whole number, with means by name. Load what "
                "RunningMean.state_dict() returned."
            )
        decay = state_dict.get("decay")  # states of plain means used to have none
        if decay != self.decay:
            raise ConstraintError(
                f"state_dict: decay={decay!r} there, {self.decay!r} here. Build RunningMean(optimizer, "
                f"decay={decay!r}), or start a new mean."
            )
        parameters = dict(self._parameters()) if count else {}
        # names used to keep the prefixes of wrappers
        means = {name if name in parameters else stripped(name): mean for name, mean in means.items()}
        for name in {**parameters, **means}:
            there, here = (
                tuple(each[name].shape) if name in each else "missing" for each in (means, parameters)
            )
            if there != here:
                raise ConstraintError(
                    f"state_dict: the mean of '{name}' is {there} there, the parameter {here} here. Use the "
                    "model whose weights were averaged."
                )
        self.count = count
        self._means = {name: mean.to(parameters[name].device, copy=True) for name, mean in means.items()}
