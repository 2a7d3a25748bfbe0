"""What the families of fused steps share: one set of launches for many parameters, and its tables."""

import operator
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.dynamics import Dynamics
from colangevin.dynamics.rates import stamp
from colangevin.kernels.counts import count_steps
from colangevin.step.entry import STATE, Entry
from colangevin.step.fused.flags import Flags
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.pattern import Pattern, pattern_of
from colangevin.step.fused.rates import Rates
from colangevin.step.fused.uploads import Uploads
from colangevin.step.mover import Mover

__all__ = ["Fused"]


_SENT_EVERY = 8  # steps between two copies of the flags to the host


class Fused(Mover):
    """Parameters that one set of launches moves, without waiting for the device.

    A family of kernels implements :meth:`tabulate` and :meth:`launch`.

    Args:
        entries: the parameters; all of one device, dtype of weight, dtype of gradient and splitting.
    """

    watches = True

    #: whether torch counts no write of a parameter by others since the last step
    trusted = False

    #: whether :meth:`finish` adds 1 to the step counts; else :meth:`launch` does
    counts = True

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__(entries)
        self.device = entries[0].parameter.device
        self.upload = Uploads(self.device)
        self.flags = Flags(entries, self.upload)
        self._rates = Rates(self.upload)
        self._parameters = [entry.parameter for entry in entries]
        self._groups = list({id(entry.group): entry.group for entry in entries}.values())
        self._addresses: list[int] = []
        self._gradients: list[int] = []
        self._options: list[Any] = []
        self._held: list[Tensor] = []  # keeps alive what the tables point to
        self._versions: list[int] = []  # of the parameters after the last step
        self._seen: list[int] = []  # and before this one
        self._age = 0
        self._dynamics: Sequence[Dynamics] = ()  # of all groups, in the last step

    # ---- what a family of kernels says -----------------------------------------------------------

    @abstractmethod
    def tabulate(self, pattern: Pattern) -> None:
        """Write the tables anew: an address, a seed or a weight decay has changed.

        Gradients are in a table of their own, which is not rewritten here.
        """

    @abstractmethod
    def launch(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        """Move everything by one step; ``grads`` holds an address for every copy of every weight."""

    def moments(self) -> tuple[str, ...]:
        """What a step keeps in the state beside the position."""
        return ("momentum",) if self._pattern.letters else ()

    # ---- the step --------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise when the gradient of an earlier step is known to have held NaN or Inf.

        Raises:
            NonFiniteError: naming the first parameter.
        """
        self.flags.raise_if_set()

    def edited(self) -> list[Entry]:
        versions = [parameter._version for parameter in self._parameters]
        self._seen = versions
        # a captured step is replayed, and torch counts no write between two replays
        self.trusted = versions == self._versions and not self._capturing()
        if versions == self._versions:
            return []
        if not self._versions:
            return self.entries
        return [e for e, a, b in zip(self.entries, versions, self._versions, strict=True) if a != b]

    def prepare(self, dynamics: Sequence[Dynamics], segment: int) -> None:
        if dynamics is not self._dynamics:
            self._follow(dynamics)
        if self._moved():
            for entry in self.entries:
                self._make_state(entry)
            self._held = [tensor for entry in self.entries for tensor in entry.state.values()]
            steps = [entry.state["step"].data_ptr() for entry in self.entries]
            self._steps = self.upload(steps, torch.int64)
            self._count = Launch(count_steps, -(-len(steps) // 128), n=len(steps), BLOCK=128)
            self.tabulate(self._pattern)
            self.trusted = False
        gradients = [entry.grad.data_ptr() for entry in self.entries]
        if gradients != self._gradients:
            self._gradients = gradients
            addresses = self._gradient_addresses()
            self.gradients_aligned = all(address % 16 == 0 for address in addresses)
            self._grads = self.upload(addresses, torch.int64)

    def advance(self) -> None:
        rates = self._rates.kept
        self.launch(self._pattern, self._grads, self._rates.table() if rates is None else rates)

    def finish(self) -> None:
        if self.counts:
            self._count(self._steps)
        torch.autograd.graph.increment_version(self._parameters)
        self._versions = [version + 1 for version in self._seen]
        self._age += 1
        if self._age % _SENT_EVERY == 0:
            self.flags.send()

    def _follow(self, dynamics: Sequence[Dynamics]) -> None:
        """Take pattern and rates from other dynamics than in the last step."""
        self._dynamics = dynamics
        steps = [(dynamics[entry.group_index], entry.copies) for entry in self.entries]
        self._pattern = pattern_of([each for each, _ in steps])
        self._rates.follow(steps if self._pattern.varies else [(steps[0][0], 1)])

    def _moved(self) -> bool:
        """Whether something the tables name has moved or changed since they were written."""
        addresses = [parameter.data_ptr() for parameter in self._parameters]
        options = [(group["seed"], *stamp(group["weight_decay"])) for group in self._groups]
        held = [tensor for entry in self.entries for tensor in entry.state.values()]
        same = self._addresses == addresses and self._options == options and len(held) == len(self._held)
        self._addresses, self._options = addresses, options
        return not (same and all(map(operator.is_, held, self._held)))

    def _gradient_addresses(self) -> list[int]:
        """Where the gradient of every copy of every weight begins."""
        addresses = []
        for entry in self.entries:
            length = entry.numel // entry.copies * entry.grad.element_size()
            addresses += [entry.grad.data_ptr() + copy * length for copy in range(entry.copies)]
        return addresses

    def _make_state(self, entry: Entry) -> None:
        """Make a position or momentum that is missing; a position is lifted as on the plain path."""
        if entry.stored and "position" not in entry.state:
            q = entry.configuration()
            entry.allocate("position").copy_(q.reshape(entry.state_shape))
        for key in self.moments():
            entry.allocate(key)
        for key in entry.state.keys() & set(STATE):
            entry.align(key)
        entry.begin_count()

    def _capturing(self) -> bool:
        return self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
