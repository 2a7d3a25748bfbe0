"""Takes back a step of several gradients when a later one fails."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

__all__ = ["Undo"]


class Undo:
    """A copy of the weights and the state, to restore them from.

    Args:
        parameters: of the optimizer.
        states: the optimizer's state.
    """

    def __init__(self, parameters: Iterable[Tensor], states: dict[Tensor, dict[str, Any]]) -> None:
        # A parameter may get its first gradient in a later evaluation, so all that can have one are copied.
        kept = [each for each in parameters if each.requires_grad or each.grad is not None]
        self._states = states
        self._before = [(each, each.detach().clone(), _cloned(states.get(each, {}))) for each in kept]

    @torch.no_grad()
    def restore(self) -> None:
        """Write weights and state back."""
        for parameter, weight, state in self._before:
            parameter.copy_(weight)
            if state:
                self._states[parameter] = state
            else:
                self._states.pop(parameter, None)


def _cloned(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value.clone() if isinstance(value, Tensor) else value for key, value in state.items()}
