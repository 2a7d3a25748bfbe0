"""Parameters that move in one call, and how their weights and state become q, p and back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import Constraint
from colangevin.constraints.base import state_dtype
from colangevin.errors import ConvergenceError, label
from colangevin.integrators.overdamped import Overdamped
from colangevin.integrators.underdamped import Underdamped
from colangevin.noise import normal, stream

__all__ = ["Bucket", "Dynamics", "Entry"]

Dynamics = Overdamped | Underdamped


@dataclass
class Entry:
    """One parameter that takes part in a step."""

    parameter: Tensor
    grad: Tensor
    name: str
    index: int  # among all parameters of the optimizer: a word of its noise
    group: Mapping[str, Any]
    state: dict[str, Any]
    untouched: bool  # nothing but the optimizer wrote the parameter since its last step

    @property
    def copies(self) -> int:
        """How many independent weights the parameter stacks."""
        return max(1, int(self.group["replicas"]))

    @property
    def label(self) -> str:
        """Name and shape, for a message."""
        return label(self.name, self.parameter.shape)

    def stack(self, tensor: Tensor) -> Tensor:
        """A tensor of the parameter's shape with the dimension that counts copies in front."""
        return tensor if self.group["replicas"] else tensor.unsqueeze(0)

    def position(self, constraint: Constraint, dtype: torch.dtype) -> Tensor:
        """Where the parameter is: stored, read off the weight, or lifted from a weight that was changed."""
        weight = self.stack(self.parameter)
        if "position" in self.state:
            return constraint.reconcile(weight, self.state["position"])
        if "step" in self.state and self.untouched:
            return constraint.read(weight.to(dtype))
        return constraint.lift(weight.to(dtype))

    def momentum(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The stored momentum, or zero: p = 0 makes the first step that of torch.optim.SGD."""
        if "momentum" in self.state:
            momentum: Tensor = self.state["momentum"]
            return momentum
        return self.parameter.new_zeros(self.copies, *shape, dtype=dtype)

    def gradient(self, dtype: torch.dtype) -> Tensor:
        """The gradient of what is minimised, weight decay included."""
        grad = self.stack(self.grad).to(dtype)
        if self.group["maximize"]:
            grad = -grad
        decay = float(self.group["weight_decay"])
        if decay:
            grad = torch.add(grad, self.stack(self.parameter).to(dtype), alpha=decay)
        return grad

    def store(self, key: str, value: Tensor) -> None:
        """Write a tensor of the state, in place once it exists."""
        if key in self.state:
            self.state[key].copy_(value)
        else:
            self.state[key] = value.clone(memory_format=torch.contiguous_format)


@dataclass
class Bucket:
    """One parameter or, where the constraint stacks them, all of one shape that move alike."""

    constraint: Constraint
    dynamics: Dynamics
    shape: tuple[int, ...]
    entries: list[Entry] = field(default_factory=list)

    @property
    def dtype(self) -> torch.dtype:
        """The precision it is computed in."""
        return state_dtype(self.entries[0].parameter.dtype)

    def compute(self, segment: int) -> tuple[Tensor, Tensor | None]:
        """Configuration and momentum after a segment of the step; nothing is written."""
        try:
            q = torch.cat([entry.position(self.constraint, self.dtype) for entry in self.entries])
            grad = torch.cat([entry.gradient(self.dtype) for entry in self.entries])
            noise = self._noise(q, segment)
            if isinstance(self.dynamics, Overdamped):
                return self.dynamics.step(self.constraint, q, grad, noise), None
            shape = tuple(q.shape[1:])
            p = torch.cat([entry.momentum(shape, self.dtype) for entry in self.entries])
            return self.dynamics.step(self.constraint, q, p, grad, noise, segment)
        except ConvergenceError as error:
            names = ", ".join(entry.label for entry in self.entries)
            raise ConvergenceError(f"{names}: {error}") from None

    def _noise(self, q: Tensor, segment: int) -> list[Tensor]:
        """The normals of a segment: functions of seed, step, parameter, copy, segment and draw alone."""
        noise = []
        for draw, shape in enumerate(self.noise_shapes(segment)):
            keys = [
                stream(entry.group["seed"], entry.state.get("step", 0), entry.index, copy, segment, draw)
                for entry in self.entries
                for copy in range(entry.copies)
            ]
            noise.append(normal(keys, shape, dtype=q.dtype, device=q.device))
        return noise

    def noise_shapes(self, segment: int) -> list[tuple[int, ...]]:
        """Shapes of the draws of a segment, for one weight."""
        return self.dynamics.noise_shapes(self.constraint, self.shape, segment)

    def write(self, q: Tensor, p: Tensor | None, *, last: bool) -> None:
        """Store a result in the parameters and their state; the last segment completes the step."""
        weights = self.constraint.lower(q, self.shape)
        start = 0
        for entry in self.entries:
            stop = start + entry.copies
            entry.stack(entry.parameter).copy_(weights[start:stop])
            if self.constraint.keeps_position(entry.parameter.dtype):
                entry.store("position", q[start:stop])
            if p is not None:
                entry.store("momentum", p[start:stop])
            if last:
                entry.state["step"] = entry.state.get("step", 0) + 1
            start = stop
