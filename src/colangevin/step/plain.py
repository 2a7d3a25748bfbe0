"""Parameters that move in one call of plain torch: the path that always works, the oracle of the others."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.constraints import Manifold
from colangevin.dynamics import Dynamics, Overdamped, Preconditioned, Underdamped
from colangevin.dynamics.preconditioned import Moments
from colangevin.dynamics.rates import Scalar
from colangevin.errors import ConvergenceError
from colangevin.noise import Window, normal, stream, streams
from colangevin.step.entry import Entry
from colangevin.step.hosted import Hosted
from colangevin.step.recording import check_recordable

__all__ = ["Plain", "moments_of", "noise_of", "stepped"]


class Plain(Hosted):
    """One parameter or, where the manifold stacks them, all of one shape that move alike.

    Args:
        entries: the parameters; all of one constraint, shape, dtype and device.
    """

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__(entries)
        self.manifold = entries[0].manifold
        self._result: tuple[Tensor, Moments] | None = None

    def doubtful(self, dynamics: Sequence[Dynamics], segment: int) -> list[Entry]:
        check_recordable(self.entries, dynamics)
        return super().doubtful(dynamics, segment)

    def prepare(self, dynamics: Sequence[Dynamics], segment: int) -> None:
        self._dynamics = dynamics[self.entries[0].group_index].on_host
        self._segment = segment
        self.completes = segment == self._dynamics.segments - 1
        self._result = self._compute() if self.manifold.fallible else None

    def advance(self) -> None:
        q, moments = self._result or self._compute()
        self._result = None
        start = 0
        for entry in self.entries:
            stop = start + entry.copies
            entry.write(q[start:stop], {key: each[start:stop] for key, each in moments.items()})
            start = stop

    def _compute(self) -> tuple[Tensor, Moments]:
        """Configuration and moments after the segment; nothing is written."""
        dynamics, entries = self._dynamics, self.entries
        try:
            q = _stacked([entry.configuration() for entry in entries])
            grad = _stacked([entry.gradient(decay=not dynamics.decoupled) for entry in entries])
            steps = [entry.step for entry in entries]
            kept = moments_of(entries, dynamics)
            moments = {key: _stacked([entry.moment(key) for entry in entries]) for key in kept}
            if isinstance(dynamics, Preconditioned):
                count = _count(steps, [entry.copies for entry in entries])
                return dynamics.step(self.manifold, q, moments, grad, count)
            noise = self.noise(steps, dynamics, q)
            return stepped(self.manifold, dynamics, q, moments, grad, noise, self._segment)
        except ConvergenceError as error:
            names = ", ".join(entry.label for entry in entries)
            raise ConvergenceError(f"{names}: {error}") from None

    def noise(self, steps: Sequence[int], dynamics: Overdamped | Underdamped, q: Tensor) -> list[Tensor]:
        """The normals of the segment that is prepared."""
        return noise_of(self.entries, steps, dynamics, self._segment, q)


def moments_of(entries: Sequence[Entry], dynamics: Dynamics) -> tuple[str, ...]:
    """The moments that a step of some parameters carries on: those it needs, and a momentum that is there."""
    kept = dynamics.kept(entries[0].manifold)
    if not kept and any("momentum" in entry.state for entry in entries):
        return ("momentum",)
    return kept


def stepped(
    manifold: Manifold,
    dynamics: Overdamped | Underdamped,
    q: Tensor,
    moments: Moments,
    grad: Tensor,
    noise: Sequence[Tensor],
    segment: int,
) -> tuple[Tensor, Moments]:
    """Configuration and momentum after a segment of Langevin dynamics.

    Args:
        manifold: of each copy.
        dynamics: with its numbers on the host.
        q: the configurations.
        moments: the momenta; none where overdamped steps alone have been taken.
        grad: the gradients.
        noise: of the segment.
        segment: of the step.

    Returns:
        The next configurations and momenta.
    """
    if not isinstance(dynamics, Overdamped):
        q, p = dynamics.step(manifold, q, moments["momentum"], grad, noise, segment)
        return q, {"momentum": p}
    q = dynamics.step(manifold, q, grad, noise)
    # left by steps with momentum: kept, as in torch.optim.SGD, but cotangent where q is now
    return q, {key: manifold.tangent(q, p) for key, p in moments.items()}


def noise_of(
    entries: Sequence[Entry], steps: Sequence[int], dynamics: Dynamics, segment: int, q: Tensor
) -> list[Tensor]:
    """The normals of a segment: functions of seed, step, parameter, copy, segment and draw alone.

    Args:
        entries: the parameters; all on one manifold, and one alone if it is a part of a weight.
        steps: how many steps each has taken.
        dynamics: of their group.
        segment: of the step.
        q: a tensor of the dtype and on the device of the noise.

    Returns:
        One tensor for each draw.
    """
    shapes = dynamics.noise_shapes(entries[0].manifold, segment)
    if not shapes:
        return []
    pairs = zip(entries, steps, strict=True)
    parameters = [stream(entry.group["seed"], step, entry.word) for entry, step in pairs]
    copies = [entry.numbers for entry in entries]
    keys = [streams(parameters, copies, segment, draw) for draw in range(len(shapes))]
    windows = [_window_on_noise(entries[0], shape) for shape in shapes]
    return [
        normal(key, shape, dtype=q.dtype, device=q.device, window=window)
        for key, shape, window in zip(keys, shapes, windows, strict=True)
    ]


def _window_on_noise(entry: Entry, shape: Sequence[int]) -> Window | None:
    """The window of a part of a weight on noise of another shape than its own."""
    return entry.window and entry.window.scaled(math.prod(shape), entry.numel)


def _count(steps: Sequence[int], copies: Sequence[int]) -> Scalar:
    """The number of a step that follows others; one for each copy where parameters differ in it."""
    first = steps[0] + 1.0
    if all(step + 1 == first for step in steps):
        return first
    return torch.tensor(steps, dtype=torch.float64).add_(1).repeat_interleave(torch.tensor(copies))


def _stacked(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)
