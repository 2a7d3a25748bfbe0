"""Parameters that move in one call of plain torch: the path that always works, the oracle of the others."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from colangevin.constraints import Constraint
from colangevin.errors import ConvergenceError
from colangevin.integrators.overdamped import Overdamped
from colangevin.integrators.underdamped import Underdamped
from colangevin.noise import normal, stream, streams
from colangevin.optim.entry import Entry

__all__ = ["Bucket", "Dynamics"]

Dynamics = Overdamped | Underdamped


@dataclass
class Bucket:
    """One parameter or, where the constraint stacks them, all of one shape that move alike."""

    constraint: Constraint
    position: int  # of a group whose dynamics it follows
    entries: list[Entry] = field(default_factory=list)

    def advance(self, dynamics: Dynamics, segment: int, *, last: bool) -> None:
        """Move every parameter through a segment of the step; the last one completes it."""
        self.write(*self.compute(dynamics, segment), last=last)

    def compute(self, dynamics: Dynamics, segment: int) -> tuple[Tensor, Tensor | None]:
        """Configuration and momentum after a segment of the step; nothing is written."""
        try:
            q = torch.cat([entry.configuration() for entry in self.entries])
            grad = torch.cat([entry.gradient() for entry in self.entries])
            noise = self._noise(dynamics, q, segment)
            if isinstance(dynamics, Overdamped):
                q = dynamics.step(self.constraint, q, grad, noise)
                if not any("momentum" in entry.state for entry in self.entries):
                    return q, None
                # left by steps with momentum: kept, as in torch.optim.SGD, but cotangent where q is now
                return q, self.constraint.tangent(q, self._momentum())
            return dynamics.step(self.constraint, q, self._momentum(), grad, noise, segment)
        except ConvergenceError as error:
            names = ", ".join(entry.label for entry in self.entries)
            raise ConvergenceError(f"{names}: {error}") from None

    def _momentum(self) -> Tensor:
        return torch.cat([entry.momentum() for entry in self.entries])

    def _noise(self, dynamics: Dynamics, q: Tensor, segment: int) -> list[Tensor]:
        """The normals of a segment: functions of seed, step, parameter, copy, segment and draw alone."""
        noise: list[Tensor] = []
        shapes = dynamics.noise_shapes(self.constraint, self.entries[0].shape, segment)
        if not shapes:
            return noise
        parameters = [stream(entry.group["seed"], entry.step, entry.index) for entry in self.entries]
        copies = [entry.numbers for entry in self.entries]
        for draw, shape in enumerate(shapes):
            keys = streams(parameters, copies, segment, draw)
            noise.append(normal(keys, shape, dtype=q.dtype, device=q.device))
        return noise

    def write(self, q: Tensor, p: Tensor | None, *, last: bool) -> None:
        """Store a result in the parameters and their state; the last segment completes the step."""
        start = 0
        for entry in self.entries:
            stop = start + entry.copies
            entry.write(q[start:stop], None if p is None else p[start:stop], last=last)
            start = stop
