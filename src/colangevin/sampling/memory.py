"""Samples in memory."""

from typing import Any

import torch
from torch import Tensor

__all__ = ["Memory", "Weights"]

#: tensors of a model by name
Weights = dict[str, Tensor]


class Memory:
    """Samples on the CPU, by the number of the call that took them."""

    def __init__(self) -> None:
        self._samples: dict[int, Weights] = {}

    @property
    def calls(self) -> list[int]:
        """The calls that took the samples, in order."""
        return sorted(self._samples)

    def claim(self) -> None:
        """Do nothing: no other process can write here."""

    def remember(self, settings: dict[str, Any]) -> None:
        """Do nothing: :class:`~colangevin.Samples` has the settings itself."""

    def add(self, call: int, weights: Weights) -> None:
        """Store a copy of the weights as the sample of a call."""
        self._samples[call] = {name: tensor.to("cpu", copy=True) for name, tensor in weights.items()}

    def read(self, call: int) -> Weights:
        """The sample of a call."""
        return self._samples[call]

    def remove(self, call: int) -> None:
        """Forget a sample."""
        del self._samples[call]

    def state_dict(self) -> dict[str, Any]:
        """The samples themselves, stacked by name, with their calls."""
        stacks = {
            name: torch.stack([self._samples[call][name] for call in self.calls])
            for name in next(iter(self._samples.values()), {})
        }
        return {"taken": self.calls, "samples": stacks}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Hold the samples of a state dict and no others."""
        self._samples = {
            call: {name: stack[i] for name, stack in state_dict["samples"].items()}
            for i, call in enumerate(state_dict["taken"])
        }
