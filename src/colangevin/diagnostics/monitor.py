"""Watching a run: temperatures, constraints and solvers over time."""

from typing import Any

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


class Monitor:
    r"""What a run looks like over time, group by group.

    Call :meth:`record` after ``backward()`` and before the optimizer's step, where gradients and weights
    belong together. At equilibrium both averages are the temperature:

    - kinetic, :math:`\langle |p|^2 \rangle` per degree of freedom, of the momenta;
    - configurational, of the positions, :math:`\langle F \cdot \nabla V \rangle / \langle \mathrm{div} F
      \rangle` for a vector field F along the manifold (:meth:`colangevin.Constraint.virial`). Gradients enter
      linearly, so those of batches do as well as full ones. The field points to where the weights were
      half-way through the burn-in; choose that so long that they have forgotten it. Where positions hardly
      prefer a direction the temperature is undetermined, and its standard error says so.

    A record samples nothing where ``lr`` or the temperature is 0, or where a gradient is not finite, which no
    step follows: it is left out of both. Standard errors count the autocorrelation. Recording waits for no
    device. Solver iterations and fallbacks are counted in every step of the optimizer after the burn-in, in
    one that is replayed from a CUDA graph if it was captured then.

    Args:
        optimizer: any optimizer of this library, also in a wrapper such as Accelerate's.
        every: of how many calls one records.
        burn_in: how many calls at the beginning record nothing.

    Raises:
        ValueError: for a number out of range.
        TypeError: for another library's optimizer.
    """

    def __init__(self, optimizer: ConstrainedOptimizer, *, every: int = 1, burn_in: int = 0) -> None:
        self.optimizer = unwrap(optimizer)
        self._turns = Turns(every, burn_in)
        #: where the fields of the configurational temperature point to
        self._references: dict[str, Tensor] = {}
        #: by group
        self._records: dict[int, list[Record]] = {}
        self._scalars: dict[str, list[Tensor]] = {}
        self._solves = solves.Counts()

    @torch.no_grad()
    @full_precision
    def record(self, **scalars: Tensor | float) -> bool:
        """Record the run as it is, if it is time to.

        Args:
            scalars: further quantities by name: a number, or for replicas a tensor with one for each.

        Returns:
            Whether anything was recorded.

        Raises:
            ValueError: for a quantity that is neither.
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
        for name, value in scalars.items():
            tensor = torch.as_tensor(value).detach()
            if tensor.dim() > 1:
                raise ValueError(
                    f"{name}: a tensor of shape {tuple(tensor.shape)}; must be one number, or one for each "
                    "replica."
                )
            self._scalars.setdefault(name, []).append(tensor.reshape(-1).clone())
        sums: dict[int, Sums] = {}
        for place in places(self.optimizer):
            if place.weight.numel():
                # a parameter that came late is its own
                reference = self._references.setdefault(_key(place), place.q.clone()).to(place.q.dtype)
                sums.setdefault(place.number, Sums()).add(self.optimizer, place, reference)
        for number, each in sums.items():
            self._records.setdefault(number, []).append(each.record())
        return True

    # ---- reading ---------------------------------------------------------------------------------

    def series(self) -> dict[str, Tensor]:
        """All that was recorded, on the CPU.

        Returns:
            Shape (chains, records) by name: the scalars by theirs, ``"kinetic[0]"`` and so on for a group's
            kinetic temperature, ``"temperature[0]"`` for the one that was asked for.
        """
        found = {name: stacked(values) for name, values in self._scalars.items()}
        for number, records in self._records.items():
            for name in ("temperature", "kinetic"):
                values = [record[name] for record in records if name in record]
                if values:
                    found[f"{name}[{number}]"] = stacked(values)
        return found

    def to_arviz(self) -> Any:
        """Everything recorded as ArviZ's ``InferenceData``; see :func:`~colangevin.diagnostics.to_arviz`."""
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
