"""What the fused paths share: tables of addresses, rates on the device, and the watch for bad gradients."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colangevin.errors import NonFiniteError
from colangevin.integrators.overdamped import Overdamped
from colangevin.integrators.rates import Scalar, varies
from colangevin.integrators.underdamped import Underdamped
from colangevin.kernels.columns import RateRow
from colangevin.kernels.counts import count_steps
from colangevin.kernels.launch import Launch
from colangevin.optim.entry import Entry

__all__ = ["Dynamics", "Form", "Fused", "Letters", "copy_values"]

Dynamics = Overdamped | Underdamped
Letters = Sequence[tuple[str, float]]

_WATCH = 8  # steps between two looks at the flags


@dataclass(frozen=True)
class Form:
    """What the steps of the parameters that one launch moves have in common, whatever their numbers are.

    Attributes:
        letters: of their splitting; none for the overdamped step.
        noisy: whether one of them has noise, or may have.
        varies: whether there is a row of rates for each copy of each weight.
    """

    letters: Letters
    noisy: bool
    varies: bool


def _form(dynamics: Sequence[Dynamics]) -> Form:
    """The form of dynamics with one splitting."""
    first = dynamics[0]
    return Form(
        () if isinstance(first, Overdamped) else first.splitting.segments[0],
        any(each.noisy for each in dynamics),
        first.varies or any(each is not first for each in dynamics),
    )


def _letter_rates(dynamics: Dynamics) -> RateRow:
    """The numbers of one letter each, or those of the overdamped step."""
    if isinstance(dynamics, Overdamped):
        return RateRow(drift=0.0, kick=dynamics.h, decay=0.0, noise_scale=dynamics.noise_scale)
    rates = dynamics.rates
    share = dict(dynamics.splitting.segments[0])
    drift = rates.drift if share["A"] == 1 else share["A"] * rates.drift  # a product is a launch
    kick = rates.kick if share["B"] == 1 else share["B"] * rates.kick
    decay, noise_scale = rates.ornstein_uhlenbeck(share["O"])
    return RateRow(drift=drift, kick=kick, decay=decay, noise_scale=noise_scale)


def copy_values(value: Scalar, copies: int) -> list[float]:
    """A number for each copy."""
    return value.tolist() if varies(value) else [float(value)] * copies


def _stamp(value: Scalar) -> tuple[object, ...]:
    """What changes when a number does, without reading it."""
    return (id(value), value._version) if isinstance(value, Tensor) else (value,)


class Fused(ABC):
    """Parameters that one set of launches moves.

    Args:
        entries: the parameters; all of one device, dtype of weight, dtype of gradient and splitting.
    """

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.device = entries[0].parameter.device
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
        self._rates: Tensor | None = None  # on the device, if all were floats
        self.flags = torch.zeros(len(entries), dtype=torch.int32, device=self.device)
        self._arrived: torch.cuda.Event | None = None
        pinned = self.device.type == "cuda"
        self._host_flags = torch.zeros(len(entries), dtype=torch.int32, device="cpu", pin_memory=pinned)
        self._recorded: list[Tensor] = []

    # ---- what a family of kernels says -----------------------------------------------------------

    @abstractmethod
    def tabulate(self, form: Form) -> None:
        """Write the tables anew: an address, a seed or a decay has changed; gradients are not in them."""

    @abstractmethod
    def launch(self, form: Form, grads: Tensor, rates: Tensor) -> None:
        """Move everything by one step; ``grads`` holds an address for every copy of every weight."""

    #: whether nobody else has written the parameters since the last step, as far as torch tells
    trusted = False

    #: whether the step counts are left to :meth:`advance`
    counts = True

    # ---- the step --------------------------------------------------------------------------------

    def advance(self, dynamics: Sequence[Dynamics]) -> None:
        """Move every parameter by one step, without waiting for the device.

        Args:
            dynamics: of every group; not looked into again while it is the same object.
        """
        if dynamics is not self._dynamics:
            self._dynamics, self._rates = dynamics, None
            self._form = _form([dynamics[entry.position] for entry in self.entries])
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
        self.launch(self._form, self._grads, self._device_rates())
        if self.counts:
            self._count(self._steps)
        torch.autograd.graph.increment_version(self._parameters)
        self._versions = [version + 1 for version in self._seen]
        self._watch()

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
        """Make a position or momentum that is missing; the first is lifted as the plain path does."""
        if entry.constraint.keeps_position(entry.parameter.dtype) and "position" not in entry.state:
            q = entry.configuration()
            entry.allocate("position").copy_(q.reshape(entry.state_shape))
        if momentum:
            entry.allocate("momentum")
        for key in entry.state.keys() & {"momentum", "position"}:
            entry.align(key)

    def touched(self) -> list[Entry]:
        """Entries whose parameter someone else wrote since the last step, as far as torch tells."""
        versions = [parameter._version for parameter in self._parameters]
        self._seen = versions
        # who replays a graph may write in between, and no version would tell
        self.trusted = versions == self._versions and not self._capturing()
        if versions == self._versions:
            return []
        if not self._versions:
            return self.entries
        return [e for e, a, b in zip(self.entries, versions, self._versions, strict=True) if a != b]

    def _device_rates(self) -> Tensor:
        """Drift, kick, decay and noise scale, in a row for each copy of each weight where they differ."""
        if self._rates is not None:
            return self._rates
        mine = [(self._dynamics[entry.position], entry.copies) for entry in self.entries]
        if not self._form.varies:
            mine = [(mine[0][0], 1)]
        rows = [(_letter_rates(each), copies) for each, copies in mine]
        if any(isinstance(value, Tensor) for values, _ in rows for value in values):
            tables = [self._on_device(values, copies) for values, copies in rows]
            return tables[0] if len(tables) == 1 else torch.cat(tables)
        self._rates = self.upload([values for values, copies in rows for _ in range(copies)], torch.float32)
        return self._rates

    def _on_device(self, values: Sequence[Scalar], copies: int) -> Tensor:
        """Rates of which some lie in tensors, in a row for each copy."""
        # a graph can record a fill, but not a number on its way from the host
        columns = [
            value.to(device=self.device, dtype=torch.float32)
            if isinstance(value, Tensor)
            else torch.full((), value, dtype=torch.float32, device=self.device)
            for value in values
        ]
        return torch.stack([column.expand(copies) for column in columns], 1)

    def _capturing(self) -> bool:
        """Whether a graph is being recorded."""
        return self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()

    def upload(self, values: Sequence[Any], dtype: torch.dtype) -> Tensor:
        """A small table on the device, without waiting for it."""
        table = torch.tensor(values, dtype=dtype, device="cpu")
        if self.device.type != "cuda":
            return table
        table = table.pin_memory()
        if self._capturing():
            self._recorded.append(table)  # every replay of the graph copies from it again
        return table.to(self.device, non_blocking=True)

    # ---- bad gradients ---------------------------------------------------------------------------

    def _watch(self) -> None:
        """Send the flags on their way to the host now and then, unless a graph is being recorded."""
        self._age += 1
        if self.device.type != "cuda" or self._age % _WATCH or self._arrived is not None:
            return
        if self._capturing():
            return
        self._host_flags.copy_(self.flags, non_blocking=True)
        self._arrived = torch.cuda.Event()
        self._arrived.record()

    def raise_if_flagged(self) -> None:
        """Raise when the flags of an earlier step have arrived and one is set.

        Raises:
            NonFiniteError: naming the first parameter.
        """
        flags = self.flags
        if self.device.type == "cuda":
            if self._arrived is None or self._capturing() or not self._arrived.query():
                return
            flags, self._arrived = self._host_flags, None
        bad = [entry for entry, flag in zip(self.entries, flags.tolist(), strict=True) if flag]
        if bad:
            self.flags.zero_()
            others = f" ({len(bad) - 1} more parameters had one too)" if len(bad) > 1 else ""
            raise NonFiniteError(
                f"{bad[0].label}: its gradient held NaN or Inf in an earlier step{others}. The entries it "
                "held them for were left as they were. Clip the gradient, or use torch.amp.GradScaler."
            )
