"""`Monitor`: records temperatures, violations and solver iterations of a run over time."""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from colangevin.constraints import solves
from colangevin.constraints.dtypes import state_dtype
from colangevin.diagnostics.chains import to_arviz
from colangevin.diagnostics.places import Place, places
from colangevin.diagnostics.records import Record, Sums, mean, ratio, sampled, stacked
from colangevin.diagnostics.report import GroupReport, Report
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.optim.unwrap import unwrap
from colangevin.surroundings import full_precision
from colangevin.turns import Turns

__all__ = ["Monitor"]

#: measures of a record that `Monitor.latest` shows, and how it makes one number of those of the copies
_REDUCED: dict[str, Callable[[Tensor], Tensor]] = {
    "temperature": torch.mean,
    "kinetic": torch.mean,
    "violation": torch.amax,
    "cotangency": torch.amax,
}


class Writer(Protocol):
    """Where numbers can be logged: TensorBoard's `SummaryWriter`, or anything with its `add_scalar`."""

    def add_scalar(self, tag: str, value: float, step: int, /) -> object:
        """Write one number."""


class Monitor:
    r"""Watch a run: does it have the temperature asked for, and are its weights on their constraints?

    Choose it when sampling, to learn whether temperatures are right, and in any long run, to log them.
    `report` has a verdict on every parameter group, `latest` the newest numbers, and `log_to` writes them to
    TensorBoard. Call `record` after `backward()` and before the optimizer's step, when gradients and weights
    belong together. Two averages are the temperature at equilibrium:

    - The kinetic temperature is that of the momenta: $\langle |p|^2 \rangle$ per degree of freedom.
    - The configurational temperature is that of the positions:
      $\langle F \cdot \nabla V \rangle / \langle \mathrm{div} F \rangle$ for a vector field F along the
      manifold. F points away from where the weights were half-way through the burn-in; choose a burn-in so
      long that they have forgotten that point. Gradients enter linearly, so gradients of batches do as well
      as full ones. Where positions hardly prefer a direction, the configurational temperature is
      undetermined, which its standard error shows.

    A record at `lr` 0 or temperature 0 samples nothing, and neither does one with a gradient that is not
    finite, after which no step is taken. Such records are left out of both averages. Standard errors include
    the autocorrelation. Recording does not wait for a device.

    Solver iterations and fallbacks are counted in every step of the optimizer after the burn-in. A step that
    is replayed from a CUDA graph counts if the graph was captured after the burn-in.

    Args:
        optimizer: any optimizer of this library, also in a wrapper such as Accelerate's.
        every: k; one of k calls records.
        burn_in: how many calls at the beginning record nothing.

    Raises:
        ValueError: for a number out of range.
        TypeError: for another library's optimizer.

    Examples:
        >>> model = nn.Linear(3, 2)
        >>> groups = cl.constrain(model, {"weight": cl.Circle(1.0)})
        >>> optimizer = cl.CoLud(groups, 0.1, friction=1.0, temperature=1e-3, seed=0)
        >>> monitor = cl.diagnostics.Monitor(optimizer)
        >>> loss = model(torch.ones(1, 3)).sum()
        >>> loss.backward()
        >>> recorded = monitor.record(loss=loss)  # before every optimizer.step()
        >>> monitor.latest()["temperature[0]"]
        0.001
    """

    def __init__(self, optimizer: ConstrainedOptimizer, *, every: int = 1, burn_in: int = 0) -> None:
        self.optimizer = unwrap(optimizer)
        self._turns = Turns(every, burn_in)
        #: by parameter: the configuration half-way through the burn-in, from which F points away
        self._references: dict[str, Tensor] = {}
        #: by number of the group
        self._records: dict[int, list[Record]] = {}
        self._scalars: dict[str, list[Tensor]] = {}
        #: the scalars of the newest record
        self._newest: dict[str, Tensor] = {}
        self._solves = solves.Counts()
        #: what was counted by the last record but one, and by the last
        self._solved = (solves.Counts(), solves.Counts())
        self._writers: list[Writer] = []

    @torch.no_grad()
    @full_precision
    def record(self, **scalars: Tensor | float) -> bool:
        """Record the run as it is now, if this call is due.

        Args:
            scalars: further quantities by name. Each is a number or, for replicas, a tensor with one number
                for each.

        Returns:
            Whether anything was recorded.

        Raises:
            ValueError: for a tensor with more than one dimension.
        """
        due = self._turns.take()
        if self._turns.calls > self._turns.burn_in:
            solves.watch(self.optimizer, self._solves)
        if self._turns.calls == self._turns.burn_in // 2 + 1:
            self._references = {
                _key(place): place.q.to(state_dtype(place.weight.dtype), copy=True)
                for place in places(self.optimizer)
            }
        if not due:
            return False
        newest = {}
        for name, value in scalars.items():
            tensor = torch.as_tensor(value).detach()
            if tensor.dim() > 1:
                raise ValueError(
                    f"{name}: a tensor of shape {tuple(tensor.shape)}; must be one number, or one for each "
                    "replica."
                )
            newest[name] = tensor.reshape(-1).clone()
        self._newest = newest
        for name, tensor in newest.items():
            self._scalars.setdefault(name, []).append(tensor)
        sums: dict[int, Sums] = {}
        for place in places(self.optimizer):
            if place.weight.numel():
                # a parameter that was added later has its first record as the reference
                reference = self._references.setdefault(_key(place), place.q.clone()).to(place.q.dtype)
                sums.setdefault(place.number, Sums()).add(self.optimizer, place, reference)
        for number, each in sums.items():
            self._records.setdefault(number, []).append(each.record())
        self._solved = (self._solved[1], self._solves.copy())
        self._write()
        return True

    def log_to(self, writer: Writer) -> None:
        """Write every later record to a writer as well, under the names that `latest` gives the numbers.

        The step is the number of steps that the optimizer has taken, also in a run that was resumed. A record
        that is written waits for the device. A second writer is written to besides the first.

        Args:
            writer: anything with `add_scalar(tag, value, step)`: TensorBoard's `SummaryWriter`, what
                Lightning's `TensorBoardLogger` has as `experiment`, or your own.

        Raises:
            TypeError: for an object without `add_scalar`.
        """
        if not callable(getattr(writer, "add_scalar", None)):
            raise TypeError(
                f"writer: a {type(writer).__name__}; must have add_scalar(tag, value, step), as "
                "torch.utils.tensorboard.SummaryWriter has."
            )
        self._writers.append(writer)

    def _write(self) -> None:
        if not self._writers:
            return
        states = self.optimizer.state.values()
        step = max((int(state["step"]) for state in states if "step" in state), default=0)
        for name, value in self.latest().items():
            for writer in self._writers:
                writer.add_scalar(name, value, step)

    # ---- reading ---------------------------------------------------------------------------------

    def latest(self) -> dict[str, float]:
        """The newest record as plain numbers, to print or to log.

        Of replicas it has the average, but the largest violation and cotangency. A configurational
        temperature is a ratio of averages over many records; `report` has it.

        Returns:
            By name: the scalars; for group 0 `"temperature[0]"` (the one asked for), `"kinetic[0]"`,
            `"violation[0]"` and `"cotangency[0]"`; where a solver ran since the record before,
            `"iterations[0]"` (of the slowest weight, averaged over calls) and `"fallbacks[0]"` (the share of
            weights). What a group does not have is left out. Before the first record the dict is empty.
        """
        found = {name: float(value.double().mean()) for name, value in self._newest.items()}
        for number, records in sorted(self._records.items()):
            for name, reduce in _REDUCED.items():
                if name in records[-1]:
                    found[f"{name}[{number}]"] = float(reduce(records[-1][name]))
            kind = type(self.optimizer.param_groups[number]["constraint"]).__name__
            before, now = (counts.of(kind) for counts in self._solved)
            new = solves.Solves(*(b - a for a, b in zip(before, now, strict=True)))
            if new.weights:
                found[f"iterations[{number}]"] = new.iterations / new.calls
                found[f"fallbacks[{number}]"] = new.fallbacks / new.weights
        return found

    def series(self) -> dict[str, Tensor]:
        """All that was recorded, on the CPU.

        Returns:
            Tensors of shape (chains, records): the scalars under their names, the kinetic temperature of
            group 0 under `"kinetic[0]"`, and the temperature that was asked for under `"temperature[0]"`.
        """
        found = {name: stacked(values) for name, values in self._scalars.items()}
        for number, records in self._records.items():
            for name in ("temperature", "kinetic"):
                values = [record[name] for record in records if name in record]
                if values:
                    found[f"{name}[{number}]"] = stacked(values)
        return found

    def to_arviz(self) -> Any:
        """Everything recorded as ArviZ's `InferenceData`; see `to_arviz`."""
        return to_arviz(self.series())

    def report(self) -> Report:
        """Averages with standard errors, and a verdict on every group.

        Returns:
            The report.

        Raises:
            ValueError: when nothing was recorded yet.
        """
        if not self._records:
            raise ValueError(f"monitor: nothing was recorded; record() was {self._turns}.")
        groups = [self._group(number) for number in sorted(self._records)]
        return Report(groups, {name: stacked(values) for name, values in self._scalars.items()})

    def _group(self, number: int) -> GroupReport:
        group, records = self.optimizer.param_groups[number], self._records[number]
        tau = stacked([record["temperature"] for record in records])
        momenta = sampled(records, "kinetic", "temperature")
        positions = sampled(records, "work", "divergence")
        tangency = [record["cotangency"] for record in records if "cotangency" in record]
        counts = self._solves.of(type(group["constraint"]).__name__)
        return GroupReport(
            number=number,
            constraint=repr(group["constraint"]),
            parameters=tuple(self.optimizer._names(number)),
            splitting=group.get("splitting"),
            temperature=(float(tau.min()), float(tau.max())),
            records=sampled(records, "temperature")[0].shape[1],
            kinetic=mean(momenta[0] / momenta[1]),
            configurational=ratio(*positions),
            violation=float(stacked([record["violation"] for record in records]).max()),
            cotangency=float(stacked(tangency).max()) if tangency else None,
            iterations=counts.iterations / counts.calls if counts.calls else None,
            fallbacks=counts.fallbacks / counts.weights if counts.weights else None,
        )


def _key(place: Place) -> str:
    return f"{place.number}: {place.name}"
