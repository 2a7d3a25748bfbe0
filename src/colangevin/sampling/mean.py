"""The mean of the weights along a run, put back onto their manifolds."""

from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.dtypes import state_dtype
from colangevin.errors import ConstraintError, ConvergenceError, label
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.optim.unwrap import unwrap
from colangevin.sampling.memory import Weights

__all__ = ["RunningMean"]


class RunningMean:
    r"""A running mean of the weights, as in stochastic weight averaging (Izmailov et al. 2018).

    The mean of points of a curved manifold lies off the manifold, so :meth:`weights` projects it. Rows are
    scaled to their norm, matrices are replaced by their polar factor, and weights under ``Implicit`` move to
    a point with g = 0. Weights under a bound need no projection: the set within a bound is convex. An update
    is one pass over the weights, on their device.

    Args:
        optimizer: whose parameters to average; they must be named, as those of
            :func:`colangevin.constrain` are.

    Raises:
        ConstraintError: when a group's parameters have no names.
        TypeError: for another library's optimizer.
    """

    def __init__(self, optimizer: ConstrainedOptimizer) -> None:
        optimizer = unwrap(optimizer)
        for position, group in enumerate(optimizer.param_groups):
            if group.get("param_names") is None:
                raise ConstraintError(
                    f"param_groups[{position}]: its parameters have no names to return their means by. Build "
                    "the optimizer from colangevin.constrain(model, rules) or model.named_parameters()."
                )
        self.optimizer = optimizer
        self.count = 0
        self._means: Weights = {}

    @torch.no_grad()
    def update(self) -> None:
        """Add the current weights to the mean."""
        self.count += 1
        for name, parameter, _ in self._parameters():
            weight = parameter.detach().to(state_dtype(parameter.dtype))
            if name in self._means:
                self._means[name].lerp_(weight, 1 / self.count)
            else:
                self._means[name] = weight.clone()

    @torch.no_grad()
    def weights(self) -> Weights:
        """The projected means by name, for ``model.load_state_dict(..., strict=False)``.

        Buffers are not averaged. For a model with BatchNorm, call ``torch.optim.swa_utils.update_bn``.

        Returns:
            Tensors like the parameters.

        Raises:
            ConstraintError: before the first :meth:`update`.
            ConvergenceError: naming the parameter, when its mean is too far from its manifold.
        """
        if not self.count:
            raise ConstraintError("running mean: update() was never called.")
        projected = {}
        for name, parameter, group in self._parameters():
            mean = self._means[name] if group["replicas"] else self._means[name].unsqueeze(0)
            manifold = group["constraint"].on(mean.shape[1:])
            if mean.numel():
                try:
                    mean = manifold.lower(manifold.lift(mean))
                except ConvergenceError as error:
                    raise ConvergenceError(f"{label(name, parameter.shape)}: {error}") from None
            weight = mean.reshape(parameter.shape).to(parameter.dtype)
            group["constraint"].check(weight, replicas=bool(group["replicas"]), name=name)
            projected[name] = weight
        return projected

    def _parameters(self) -> list[tuple[str, Tensor, dict[str, Any]]]:
        return [
            (name, parameter, group)
            for group in self.optimizer.param_groups
            for name, parameter in zip(group["param_names"], group["params"], strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """The means before projection, and the number of updates."""
        return {"count": self.count, "means": {name: mean.clone() for name, mean in self._means.items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where :meth:`state_dict` was called.

        Args:
            state_dict: what :meth:`state_dict` returned.

        Raises:
            ConstraintError: when the state dict is not of these parameters. Nothing has changed then.
        """
        count, means = state_dict.get("count"), state_dict.get("means")
        if isinstance(count, bool) or not isinstance(count, int) or count < 0 or not isinstance(means, dict):
            raise ConstraintError(
                f"state_dict: count={count!r} must be a whole number, with means by name. Load what "
                "RunningMean.state_dict() returned."
            )
        parameters = {name: parameter for name, parameter, _ in self._parameters()} if count else {}
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
