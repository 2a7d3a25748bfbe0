"""Watching a run: temperatures, constraints and solvers over time."""

import math
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import solves
from colangevin.constraints.base import state_dtype
from colangevin.diagnostics.chains import standard_error, to_arviz
from colangevin.diagnostics.places import Place, places
from colangevin.diagnostics.report import Estimate, GroupReport, Report
from colangevin.diagnostics.temperature import kinetic_energy
from colangevin.optim.base import ConstrainedOptimizer
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

    Standard errors count the autocorrelation. Recording waits for no device. Solver iterations and fallbacks
    are counted in every step of the optimizer after the burn-in, in one that is replayed from a CUDA graph if
    it was captured then.

    Args:
        optimizer: any optimizer of this library.
        every: of how many calls one records.
        burn_in: how many calls at the beginning record nothing.

    Raises:
        ValueError: for a number out of range.
    """

    def __init__(self, optimizer: ConstrainedOptimizer, *, every: int = 1, burn_in: int = 0) -> None:
        self.optimizer = optimizer
        self._turns = Turns(every, burn_in)
        #: where the fields of the configurational temperature point to
        self._references: dict[str, Tensor] = {}
        #: by group and measure, a tensor of shape (copies,) for each record
        self._series: dict[int, dict[str, list[Tensor]]] = {}
        self._scalars: dict[str, list[Tensor]] = {}
        self._solves = solves.Counts()

    @torch.no_grad()
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
        sums: dict[int, _Sums] = {}
        for place in places(self.optimizer):
            if place.weight.numel():
                # a parameter that came late is its own
                reference = self._references.setdefault(_key(place), place.q.clone()).to(place.q.dtype)
                sums.setdefault(place.number, _Sums()).add(self.optimizer, place, reference)
        for number, each in sums.items():
            series = self._series.setdefault(number, {})
            for name, value in each.measures().items():
                series.setdefault(name, []).append(value)
        return True

    # ---- reading ---------------------------------------------------------------------------------

    def series(self) -> dict[str, Tensor]:
        """All that was recorded, on the CPU.

        Returns:
            Shape (chains, records) by name: the scalars by theirs, ``"kinetic[0]"`` and so on for a group's
            kinetic temperature, ``"temperature[0]"`` for the one that was asked for.
        """
        found = {name: _stacked(values) for name, values in self._scalars.items()}
        for number, series in self._series.items():
            for name in ("temperature", "kinetic"):
                if name in series:
                    found[f"{name}[{number}]"] = _stacked(series[name])
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
        if not self._series:
            raise ValueError(f"monitor: nothing was recorded; record() was {self._turns}.")
        groups = [self._group(number, series) for number, series in sorted(self._series.items())]
        return Report(groups, {name: _stacked(values) for name, values in self._scalars.items()})

    def _group(self, number: int, series: dict[str, list[Tensor]]) -> GroupReport:
        group = self.optimizer.param_groups[number]
        tau = _stacked(series["temperature"])
        kinetic = configurational = None
        if bool((tau > 0).all()):
            if "kinetic" in series:
                relative = _stacked(series["kinetic"]) / tau
                kinetic = Estimate(float(relative.mean()), standard_error(relative))
            if "work" in series:
                configurational = _ratio(_stacked(series["work"]), _stacked(series["divergence"]))
        counts = self._solves.of(type(group["constraint"]).__name__)
        return GroupReport(
            number=number,
            constraint=repr(group["constraint"]),
            parameters=tuple(self.optimizer._names(number)),
            splitting=group.get("splitting"),
            temperature=(float(tau.min()), float(tau.max())),
            kinetic=kinetic,
            configurational=configurational,
            violation=float(_stacked(series["violation"]).max()),
            cotangency=float(_stacked(series["cotangency"]).max()) if "cotangency" in series else None,
            iterations=counts.iterations / counts.calls if counts.calls else None,
            fallbacks=counts.fallbacks / counts.weights if counts.weights else None,
        )


class _Sums:
    """What is added up over the parameters of a group, each of shape (copies,)."""

    def __init__(self) -> None:
        self.energy: Tensor | float = 0.0
        self.freedom = 0
        self.work: Tensor | float = 0.0
        self.divergence: Tensor | float = 0.0
        self.largest: dict[str, Tensor] = {}
        self.temperature = torch.empty(0)

    def add(self, optimizer: ConstrainedOptimizer, place: Place, reference: Tensor) -> None:
        tau = place.group["temperature"]
        if isinstance(tau, Tensor):
            self.temperature = tau.to(place.q).reshape(-1).expand(len(place.q)).clone()
        else:  # filled in on the device, which a copy would wait for
            self.temperature = place.q.new_full((len(place.q),), tau)
        energy = kinetic_energy(optimizer, place)
        if energy is not None:
            self.energy = self.energy + energy
            self.freedom += place.freedom
        force = place.force()
        if force is not None:
            work, divergence = place.constraint.virial(place.q, force, reference)
            self.work, self.divergence = self.work + work, self.divergence + divergence
        self._worst("violation", place.constraint.residual(place.weight, place.q))
        if place.p is not None:
            self._worst("cotangency", place.constraint.cotangency(place.q, place.p))

    def _worst(self, name: str, value: Tensor) -> None:
        self.largest[name] = torch.maximum(self.largest[name], value) if name in self.largest else value

    def measures(self) -> dict[str, Tensor]:
        found = {"temperature": self.temperature, **self.largest}
        if isinstance(self.energy, Tensor) and self.freedom:
            found["kinetic"] = self.energy / self.freedom
        if isinstance(self.work, Tensor) and isinstance(self.divergence, Tensor):
            found["work"], found["divergence"] = self.work / self.temperature, self.divergence
        return found


def _key(place: Place) -> str:
    return f"{place.number}: {place.name}"


def _stacked(records: list[Tensor]) -> Tensor:
    """Records of shape (copies,) as chains of shape (copies, records) on the CPU."""
    return torch.stack(records, dim=1).double().cpu()


def _ratio(above: Tensor, below: Tensor) -> Estimate | None:
    """The ratio of two averages; None where one of them is not defined."""
    value = float(above.mean() / below.mean())
    if not math.isfinite(value):
        return None
    return Estimate(value, standard_error(above - value * below) / abs(float(below.mean())))
