"""Undoing a step that needs several gradients, when one of them does not come."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

__all__ = ["Undo"]


class Undo:
    """Weights and state as they are now, to go back to.

    Args:
        parameters: of the optimizer.
        states: the optimizer's state.
    """

    def __init__(self, parameters: Iterable[Tensor], states: dict[Tensor, dict[str, Any]]) -> None:
        # a gradient may come late, in the second evaluation: whoever can have one is kept
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
