"""Averages of weights that callbacks of Lightning put into a model, onto the constraints and back."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from colangevin.constraints import Free
from colangevin.errors import ConstraintError
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.optim.projection import project_

__all__ = ["Averages"]

# Callbacks are known by the names of their classes: the packages lightning and pytorch_lightning each have
# their own.
_SWAPS = "WeightAveraging"
_TRANSFERS = "StochasticWeightAveraging"


class Averages:
    """Projects the averages of `WeightAveraging` and `StochasticWeightAveraging`.

    `WeightAveraging` swaps the average into the model for every validation, and copies it there in the end.
    `StochasticWeightAveraging` copies it in the end, or before the epoch that renews the statistics of
    BatchNorm. Only what the model gets is projected: the average itself goes on as it was.

    Args:
        model: the one that is trained.
        optimizers: those of this library that move its weights.
        callbacks: of the trainer.
        after: a callback that has to come after those that average.

    Raises:
        ConstraintError: when a callback that averages comes after it.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizers: Iterable[ConstrainedOptimizer],
        callbacks: Sequence[Any],
        after: object,
    ) -> None:
        self._model = model
        self._groups = _held(model, optimizers)
        self._swapping = [callback for callback in callbacks if _is(callback, _SWAPS)]
        self._transferring = [callback for callback in callbacks if _is(callback, _TRANSFERS)]
        #: the average that is in the model, before it was projected
        self._average: dict[str, Tensor] = {}
        late = [each for each in callbacks[callbacks.index(after) :] if _is(each, _SWAPS, _TRANSFERS)]
        if late:
            raise ConstraintError(
                f"callbacks: {type(late[0]).__name__} comes after {type(after).__name__}, so averages would "
                f"get into the model after the projection. Put {type(after).__name__} last in "
                "Trainer(callbacks=...)."
            )

    def project(self) -> None:
        """Project the average that is in the model for a validation."""
        if self._swapping:
            self._average = {
                name: parameter.detach().clone()
                for group in self._groups
                for name, parameter in group["params"]
            }
            project_(self._model, self._groups)

    def put_back(self) -> None:
        """After the validation: the average goes on from where it was, not from its projection."""
        for callback in self._swapping:
            averages = dict(callback._average_model.module.named_parameters())
            with torch.no_grad():
                for name, values in self._average.items():
                    averages[name].copy_(values)
        self._average = {}

    def project_last(self, epoch: int, *, end: bool) -> bool:
        """Project the last average, if the model has got it.

        Args:
            epoch: the one that begins; at the end of the training, the one that would be next.
            end: whether the training is at its end.

        Returns:
            Whether the model has it.
        """
        # swa_end is infinite for a training without a last epoch, which is averaged whenever it ends
        transferred = [
            each for each in self._transferring if epoch > each.swa_end or (end and each.swa_end == math.inf)
        ]
        if not transferred and not (end and self._swapping):
            return False
        for callback in transferred:
            # The epoch that renews the statistics of BatchNorm ends with a step of the optimizer, along the
            # gradients of the epoch before.
            callback.transfer_weights(callback._average_model, self._model)
        project_(self._model, self._groups)
        return True


def _is(callback: object, *names: str) -> bool:
    return any(each.__name__ in names for each in type(callback).__mro__)


def _held(model: nn.Module, optimizers: Iterable[ConstrainedOptimizer]) -> list[dict[str, Any]]:
    """The groups of optimizers that are not free, under the names that the model has for their parameters.

    In the optimizers the names may be those of a part of the model.

    Args:
        model: that has the parameters.
        optimizers: that have the groups.

    Returns:
        Groups with named parameters.
    """
    names = {parameter: name for name, parameter in model.named_parameters()}
    return [
        {
            "params": [(names[parameter], parameter) for parameter in group["params"] if parameter in names],
            "constraint": group["constraint"],
            "replicas": group["replicas"],
        }
        for optimizer in optimizers
        for group in optimizer.param_groups
        if not isinstance(group["constraint"], Free)
    ]
