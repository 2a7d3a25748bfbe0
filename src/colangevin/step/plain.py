"""Parameters that move in one call of plain torch: the path that always works, the oracle of the others."""

from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.dynamics import Dynamics, Overdamped
from colangevin.errors import ConvergenceError
from colangevin.noise import normal, stream, streams
from colangevin.step.entry import Entry
from colangevin.step.hosted import Hosted

__all__ = ["Plain"]


class Plain(Hosted):
    """One parameter or, where the manifold stacks them, all of one shape that move alike.

    Args:
        entries: the parameters; all of one constraint, shape, dtype and device.
    """

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__(entries)
        self.manifold = entries[0].manifold
        self._result: tuple[Tensor, Tensor | None] | None = None

    def prepare(self, dynamics: Sequence[Dynamics], segment: int) -> None:
        self._dynamics = dynamics[self.entries[0].group_index].on_host
        self._segment = segment
        self.completes = segment == self._dynamics.segments - 1
        self._result = self._compute() if self.manifold.fallible else None

    def advance(self) -> None:
        q, p = self._result or self._compute()
        self._result = None
        start = 0
        for entry in self.entries:
            stop = start + entry.copies
            entry.write(q[start:stop], None if p is None else p[start:stop])
            start = stop

    def _compute(self) -> tuple[Tensor, Tensor | None]:
        """Configuration and momentum after the segment; nothing is written."""
        dynamics, manifold = self._dynamics, self.manifold
        try:
            q = _stacked([entry.configuration() for entry in self.entries])
            grad = _stacked([entry.gradient() for entry in self.entries])
            noise = self._noise(q)
            if not isinstance(dynamics, Overdamped):
                return dynamics.step(manifold, q, self._momentum(), grad, noise, self._segment)
            q = dynamics.step(manifold, q, grad, noise)
            if not any("momentum" in entry.state for entry in self.entries):
                return q, None
            # left by steps with momentum: kept, as in torch.optim.SGD, but cotangent where q is now
            return q, manifold.tangent(q, self._momentum())
        except ConvergenceError as error:
            names = ", ".join(entry.label for entry in self.entries)
            raise ConvergenceError(f"{names}: {error}") from None

    def _momentum(self) -> Tensor:
        return _stacked([entry.momentum() for entry in self.entries])

    def _noise(self, q: Tensor) -> list[Tensor]:
        """The normals of the segment: functions of seed, step, parameter, copy, segment and draw alone."""
        shapes = self._dynamics.noise_shapes(self.manifold, self._segment)
        if not shapes:
            return []
        parameters = [stream(entry.group["seed"], entry.step, entry.index) for entry in self.entries]
        copies = [entry.numbers for entry in self.entries]
        keys = [streams(parameters, copies, self._segment, draw) for draw in range(len(shapes))]
        pairs = zip(keys, shapes, strict=True)
        return [normal(key, shape, dtype=q.dtype, device=q.device) for key, shape in pairs]


def _stacked(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)
