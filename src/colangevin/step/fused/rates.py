"""The numbers of a step, as the kernels read them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.dynamics import Adam, Dynamics, Muon, Overdamped, Underdamped
from colangevin.dynamics.rates import Scalar, varies
from colangevin.kernels.columns import AdamRow, RateRow
from colangevin.step.fused.uploads import Uploads

__all__ = ["Rates", "adam_of", "copy_values"]


def adam_of(dynamics: Dynamics) -> Adam:
    """The step of Adam that a parameter takes, by itself or as a vector among Muon's matrices."""
    found = dynamics.adam if isinstance(dynamics, Muon) else dynamics
    assert isinstance(found, Adam)  # eligible.py lets no other through
    return found


def copy_values(value: Scalar, copies: int) -> list[float]:
    """A number for each copy."""
    return value.tolist() if varies(value) else [float(value)] * copies


class Rates:
    """The table of rates of one step after the other; made once while all numbers are floats.

    Args:
        upload: brings a table to the device.
    """

    def __init__(self, upload: Uploads) -> None:
        self._upload = upload
        self._steps: list[tuple[Dynamics, int]] = []
        #: the table, where it is the same in every step
        self.kept: Tensor | None = None

    def follow(self, steps: list[tuple[Dynamics, int]]) -> None:
        """Take the numbers of other dynamics from now on.

        Args:
            steps: dynamics of each parameter, and how many copies the parameter has; one pair with one copy
                where all share a row.
        """
        self._steps, self.kept = steps, None

    def table(self) -> Tensor:
        """The table on the device: a row for each copy."""
        if self.kept is not None:
            return self.kept
        rows = [(_row(dynamics), copies) for dynamics, copies in self._steps]
        if any(isinstance(value, Tensor) for row, _ in rows for value in row):
            tables = [self._on_device(row, copies) for row, copies in rows]
            return tables[0] if len(tables) == 1 else torch.cat(tables)
        self.kept = self._upload([row for row, copies in rows for _ in range(copies)], torch.float32)
        return self.kept

    def _on_device(self, row: Sequence[Scalar], copies: int) -> Tensor:
        """Rates of which some lie in tensors, in a row for each copy."""
        # a CUDA graph can record a fill, but not a number on its way from the host
        device = self._upload.device
        columns = [
            value.to(device=device, dtype=torch.float32)
            if isinstance(value, Tensor)
            else torch.full((), value, dtype=torch.float32, device=device)
            for value in row
        ]
        return torch.stack([column.expand(copies) for column in columns], 1)


def _row(dynamics: Dynamics) -> RateRow | AdamRow:
    """The numbers of one letter each, those of the overdamped step, or Adam's."""
    if isinstance(dynamics, Overdamped):
        return RateRow(drift=0.0, kick=dynamics.h, decay=0.0, noise_scale=dynamics.noise_scale)
    if not isinstance(dynamics, Underdamped):
        adam = adam_of(dynamics)
        first, second = (1 - beta for beta in adam.betas)
        return AdamRow(lr=adam.lr, decay=adam.weight_decay, first=first, second=second, eps=adam.eps)
    rates = dynamics.rates
    share = dict(dynamics.splitting.segments[0])
    # a rate may be a tensor, whose product costs a launch
    drift = rates.drift if share["A"] == 1 else share["A"] * rates.drift
    kick = rates.kick if share["B"] == 1 else share["B"] * rates.kick
    decay, noise_scale = rates.ornstein_uhlenbeck(share["O"])
    return RateRow(drift=drift, kick=kick, decay=decay, noise_scale=noise_scale)
