"""Records of a parameter group: how one is made, and the averages over many."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.constraints.capabilities import virial
from colangevin.diagnostics.chains import standard_error
from colangevin.diagnostics.places import Place
from colangevin.diagnostics.report import Estimate
from colangevin.diagnostics.temperature import kinetic_energy
from colangevin.optim.base import ConstrainedOptimizer

__all__ = ["Record", "Sums", "mean", "ratio", "sampled", "stacked"]

#: measures by name, each of shape (copies,)
Record = dict[str, Tensor]


class Sums:
    """Sums over the parameters of a group that make one record. Tensors have shape (copies,)."""

    def __init__(self) -> None:
        self.energy: Tensor | float = 0.0
        self.freedom = 0
        self.work: Tensor | float = 0.0
        self.divergence: Tensor | float = 0.0
        self.largest: Record = {}
        self.temperature = torch.empty(0)
        self.sampling = torch.empty(0)

    def add(self, optimizer: ConstrainedOptimizer, place: Place, reference: Tensor) -> None:
        """Add a parameter.

        Args:
            optimizer: the one that moves the parameter.
            place: the parameter.
            reference: the configuration from which the field of the configurational temperature points away.
        """
        if not self.temperature.numel():
            self.temperature = place.option("temperature")
            self.sampling = (self.temperature > 0) & (place.option("lr") > 0)
        energy = kinetic_energy(optimizer, place)
        if energy is not None:
            self.energy = self.energy + energy
            self.freedom += place.freedom
        force = place.force()
        if force is not None:
            self.sampling = self.sampling & force.reshape(len(force), -1).isfinite().all(1)
            work, divergence = virial(place.manifold, place.q, force, reference)
            self.work, self.divergence = self.work + work, self.divergence + divergence
        self._worst("violation", place.violation())
        if place.p is not None:
            self._worst("cotangency", place.cotangency())

    def _worst(self, name: str, value: Tensor) -> None:
        self.largest[name] = torch.maximum(self.largest[name], value) if name in self.largest else value

    def record(self) -> Record:
        """The record of the group."""
        found = {"temperature": self.temperature, "sampling": self.sampling, **self.largest}
        if isinstance(self.energy, Tensor) and self.freedom:
            found["kinetic"] = self.energy / self.freedom
        if isinstance(self.work, Tensor) and isinstance(self.divergence, Tensor):
            found["work"], found["divergence"] = self.work / self.temperature, self.divergence
        return found


def stacked(values: Sequence[Tensor]) -> Tensor:
    """Values of shape (copies,) as chains of shape (copies, records) on the CPU."""
    return torch.stack(list(values), dim=1).double().cpu()


def sampled(records: Sequence[Record], *names: str) -> list[Tensor]:
    """Measures over the chains that sample and the records in which all of these chains sample.

    Args:
        records: of a group.
        names: of the measures. Records that lack one are left out.

    Returns:
        Each measure, of shape (chains, records); empty if nothing samples.
    """
    having = [record for record in records if all(name in record for name in names)]
    if not having:
        return [torch.empty(0, 0)] * len(names)
    sampling = stacked([record["sampling"] for record in having]).bool()
    chains = sampling.any(1)
    together = sampling[chains].all(0) & chains.any()
    return [stacked([record[name] for record in having])[chains][:, together] for name in names]


def mean(chains: Tensor) -> Estimate | None:
    """The average with its standard error; None without records."""
    return Estimate(float(chains.mean()), standard_error(chains)) if chains.numel() else None


def ratio(above: Tensor, below: Tensor) -> Estimate | None:
    """The ratio of two averages; None without records, or if the average below is 0 or NaN."""
    scale = abs(float(below.mean())) if below.numel() else 0.0
    if not scale > 0:
        return None
    value = float(above.mean() / below.mean())
    error = standard_error(above - value * below) / scale if math.isfinite(value) else math.nan
    return Estimate(value, error)
