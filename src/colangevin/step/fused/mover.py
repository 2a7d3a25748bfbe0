"""What the families of fused steps share: one set of launches for many parameters, and its tables."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.integrators.rates import Scalar
from colangevin.kernels.counts import count_steps
from colangevin.optim.entry import Entry
from colangevin.step.fused.flags import Flags
from colangevin.step.fused.form import Dynamics, Form, form_of
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.rates import Rates
from colangevin.step.fused.uploads import Uploads

__all__ = ["Fused"]


class Fused(ABC):
    """Parameters that one set of launches moves.

    A family of kernels implements :meth:`tabulate` and :meth:`launch`.

    Args:
        entries: the parameters; all of one device, dtype of weight, dtype of gradient and splitting.
    """

    #: whether torch counts no write of a parameter by others since the last step
    trusted = False

    #: whether :meth:`advance` adds 1 to the step counts; else :meth:`launch` does
    counts = True

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
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
        self._dynamics: Sequence[Dynamics] = ()  # of all groups, in the last step

    # ---- what a family of kernels says -----------------------------------------------------------

    @abstractmethod
    def tabulate(self, form: Form) -> None:
        """Write the tables anew: an address, a seed or a weight decay has changed.

        Gradients are in a table of their own, which is not rewritten here.
        """

    @abstractmethod
    def launch(self, form: Form, grads: Tensor, rates: Tensor) -> None:
        """Move everything by one step; ``grads`` holds an address for every copy of every weight."""

    # ---- the step --------------------------------------------------------------------------------

    def advance(self, dynamics: Sequence[Dynamics]) -> None:
        """Move every parameter by one step, without waiting for the device.

        Args:
            dynamics: of every group; the same object as in the last step means the same dynamics.
        """
        if dynamics is not self._dynamics:
            self._follow(dynamics)
        if self._moved():
            for entry in self.entries:
                self._prepare(entry, momentum=bool(self._form.letters))
            steps = [entry.counter.data_ptr() for entry in self.entries]
            self._held = [tensor for entry in self.entries for tensor in entry.state.values()]
            self._steps = self.upload(steps, torch.int64)
            self._count = Launch(count_steps, -(-len(steps) // 128), n=len(steps), BLOCK=128)
            self.tabulate(self._form)
            self.trusted = False
        gradients = [entry.grad.data_ptr() for entry in self.entries]
        if gradients != self._gradients:
            self._gradients = gradients
            addresses = self._gradient_addresses()
            self.gradients_aligned = all(address % 16 == 0 for address in addresses)
            self._grads = self.upload(addresses, torch.int64)
        self.launch(self._form, self._grads, self._rates.table())
        if self.counts:
            self._count(self._steps)
        torch.autograd.graph.increment_version(self._parameters)
        self._versions = [version + 1 for version in self._seen]
        self.flags.send()

    def _follow(self, dynamics: Sequence[Dynamics]) -> None:
        """Take form and rates from other dynamics than in the last step."""
        self._dynamics = dynamics
        steps = [(dynamics[entry.position], entry.copies) for entry in self.entries]
        self._form = form_of([each for each, _ in steps])
        self._rates.follow(steps if self._form.varies else [(steps[0][0], 1)])

    def _moved(self) -> bool:
        """Whether something the tables name has moved or changed since they were written."""
        addresses = [parameter.data_ptr() for parameter in self._parameters]
        options = [(group["seed"], *_stamp(group["weight_decay"])) for group in self._groups]
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

    @staticmethod
    def _prepare(entry: Entry, *, momentum: bool) -> None:
        """Make a position or momentum that is missing; a position is lifted as on the plain path."""
        if entry.constraint.keeps_position(entry.parameter.dtype) and "position" not in entry.state:
            q = entry.configuration()
            entry.allocate("position").copy_(q.reshape(entry.state_shape))
        if momentum:
            entry.allocate("momentum")
        for key in entry.state.keys() & {"momentum", "position"}:
            entry.align(key)

    # ---- between steps ---------------------------------------------------------------------------

    def touched(self) -> list[Entry]:
        """Entries whose parameter others wrote since the last step, as far as torch counts writes."""
        versions = [parameter._version for parameter in self._parameters]
        self._seen = versions
        # a captured step is replayed, and torch counts no write between two replays
        self.trusted = versions == self._versions and not self.upload.capturing
        if versions == self._versions:
            return []
        if not self._versions:
            return self.entries
        return [e for e, a, b in zip(self.entries, versions, self._versions, strict=True) if a != b]

    def raise_if_flagged(self) -> None:
        """Raise when the gradient of an earlier step is known to have held NaN or Inf.

        Raises:
            NonFiniteError: naming the first parameter.
        """
        self.flags.raise_if_set()


def _stamp(value: Scalar) -> tuple[object, ...]:
    """What changes when a number does, without reading it."""
    return (id(value), value._version) if isinstance(value, Tensor) else (value,)
