"""The report of a monitor: a row for every group, and a verdict in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from colangevin.diagnostics.chains import Convergence, convergence
from colangevin.extras import extra

__all__ = ["Estimate", "GroupReport", "Report"]

# A temperature that is off by at most this share counts as right: few models notice 5 %.
_SHARE = 0.05
# Standard errors that an interval reaches to either side. The truth is outside by chance once in 370 times.
_ERRORS = 3.0
# Fewest records for a standard error and for ArviZ.
_FEWEST = 4
_PURPOSE = "A table of the diagnostics"
# Fallbacks shorten a step and so take energy. Above this share of projections they are named as a cause.
_FREQUENT = 0.01


Outcome = Literal["right", "off", "undetermined"]


@dataclass(frozen=True)
class Estimate:
    """A measured temperature as a ratio to the one that was asked for, with its standard error.

    The interval of the ratio reaches three standard errors to either side, and at least 5 %: less does not
    matter.

    Attributes:
        value: the ratio; 1 is right.
        error: its standard error; NaN with too few records.

    Examples:
        >>> print(cl.diagnostics.Estimate(1.02, 0.01))
        1.020 ± 0.010
        >>> [cl.diagnostics.Estimate(value, 0.01).outcome for value in (1.02, 1.2)]
        ['right', 'off']
    """

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}"

    @property
    def outcome(self) -> Outcome:
        """Whether the ratio is 1.

        - `"right"`: the interval contains 1, and the standard error is at most 5 %.
        - `"off"`: the interval does not contain 1, however wide it is, or the ratio is not finite.
        - `"undetermined"`: the interval contains 1, but the standard error is above 5 % or, with too few
          records, unknown.
        """
        if not math.isfinite(self.value):
            return "off"
        if math.isnan(self.error):
            return "undetermined"
        if abs(self.value - 1) > max(_SHARE, _ERRORS * self.error):
            return "off"
        return "right" if self.error <= _SHARE else "undetermined"


@dataclass(frozen=True)
class GroupReport:
    """What a monitor found out about one parameter group, and its verdict in words.

    Attributes:
        number: of the group.
        constraint: its `repr`.
        parameters: their names.
        splitting: of the dynamics; None for overdamped dynamics and for `ConstrainedSGD`.
        temperature: the smallest and the largest that was asked for.
        records: how many sample, with `lr` and temperature above 0. `kinetic` and `configurational` are
            averages over these.
        kinetic: kinetic temperature over the one asked for; None without momenta or records.
        configurational: configurational temperature over the one asked for; None where it is not defined.
        violation: largest violation of the constraint in any record.
        cotangency: largest error of the momenta in any record; None without momenta.
        iterations: of the solver for the slowest weight of a call, averaged over calls; None without a
            solver.
        fallbacks: share of projections that took the fallback; None without a solver.

    Examples:
        >>> weight = nn.Parameter(torch.zeros(3))
        >>> monitor = cl.diagnostics.Monitor(cl.CoLod([("w", weight)], 0.1, temperature=0.1))
        >>> recorded = monitor.record()
        >>> group = monitor.report().groups[0]
        >>> group.name, group.records, group.verdict
        ('w', 1, 'too few records to judge.')
    """

    number: int
    constraint: str
    parameters: tuple[str, ...]
    splitting: str | None
    temperature: tuple[float, float]
    records: int
    kinetic: Estimate | None
    configurational: Estimate | None
    violation: float
    cotangency: float | None
    iterations: float | None
    fallbacks: float | None

    @property
    def name(self) -> str:
        """The name of the first parameter, and how many more there are."""
        first, *others = self.parameters
        return first if not others else f"{first} and {len(others)} more"

    @property
    def verdict(self) -> str:
        """Whether the temperatures are right, and what to do if not."""
        if not self.records:
            return f"{'temperature' if self.temperature[1] == 0 else 'lr'} 0: nothing is sampled."
        if self.records < _FEWEST:
            return "too few records to judge."
        kinetic, position = self.kinetic, self.configurational
        if kinetic is not None and kinetic.outcome == "off":
            return self._kinetic_verdict(kinetic)
        if position is not None and position.outcome == "off":
            return self._position_verdict(position)
        of_positions = "undetermined" if position is None else position.outcome
        if kinetic is None:
            return f"configurational temperature {of_positions}."
        if kinetic.outcome == of_positions:
            return f"temperatures {of_positions}."
        return f"kinetic temperature {kinetic.outcome}; configurational temperature {of_positions}."

    def _kinetic_verdict(self, kinetic: Estimate) -> str:
        size = f"kinetic temperature {kinetic.value:.2f} of what was asked for"
        if not kinetic.value < 1:  # NaN counts as too hot
            return (
                f"{size}: step too large for {self.name}, or for the noise of its batches. Reduce lr, or "
                "raise friction or the batch size."
            )
        if self.fallbacks is not None and self.fallbacks > _FREQUENT:
            return (
                f"{size}: step too large for {self.name}: in {self.fallbacks:.0%} of the projections the "
                "fallback acted, which takes energy. Reduce lr."
            )
        return f"{size}: {self.name} is not in equilibrium. Burn in longer, or raise friction."

    def _position_verdict(self, position: Estimate) -> str:
        size = f"configurational temperature {position.value:.2f} of what was asked for"
        first_order = self.splitting is not None and self.splitting != "BAOAB"
        other = f", or use BAOAB, since {self.splitting} errs in proportion to lr" if first_order else ""
        if not position.value < 1:
            return f"{size}: step too large for {self.name}, or not in equilibrium. Reduce lr{other}."
        return f"{size}: {self.name} is not in equilibrium. Burn in longer{other}."


@dataclass(frozen=True)
class Report:
    """What a monitor found out about a run: print it, or `show` it as tables.

    Attributes:
        groups: a `GroupReport` for each parameter group.
        scalars: what was recorded besides, by name, each of shape (chains, records).

    Examples:
        >>> weight = nn.Parameter(torch.zeros(3))
        >>> monitor = cl.diagnostics.Monitor(cl.CoLod([("w", weight)], 0.1, temperature=0.1))
        >>> recorded = monitor.record(loss=1.0)
        >>> print(monitor.report())
        group 0 (w, Free()): kinetic –, configurational –; too few records to judge.
    """

    groups: Sequence[GroupReport]
    scalars: dict[str, Tensor]

    def __str__(self) -> str:
        return "\n".join(
            f"group {group.number} ({group.name}, {group.constraint}): kinetic {_cell(group.kinetic)}, "
            f"configurational {_cell(group.configurational)}; {group.verdict}"
            for group in self.groups
        )

    def convergence(self) -> dict[str, Convergence]:
        """Effective sample size and split R-hat of the scalars, by ArviZ."""
        return convergence(self.scalars)

    def __rich__(self) -> Any:
        """What `rich.print` shows: a table of the groups, their verdicts, and a table of the scalars."""
        rows = {
            "group": [f"{group.number}: {group.name}" for group in self.groups],
            "τ": [_range(*group.temperature) for group in self.groups],
            "kinetic / τ": [_cell(group.kinetic) for group in self.groups],
            "config. / τ": [_cell(group.configurational) for group in self.groups],
            "violation": [f"{group.violation:.0e}" for group in self.groups],
            "cotangency": [_number(group.cotangency, ".0e") for group in self.groups],
            "iterations": [_number(group.iterations, ".1f") for group in self.groups],
            "fallbacks": [_number(group.fallbacks, ".1%") for group in self.groups],
        }
        verdicts = [f"{group.number}: {group.constraint}: {group.verdict}" for group in self.groups]
        parts = [_table(rows), *verdicts]
        if self.scalars and next(iter(self.scalars.values())).shape[1] >= _FEWEST:
            found = self.convergence().items()
            scalars = {
                "scalar": [name for name, _ in found],
                "mean": [f"{each.mean:.4g} ± {each.error:.2g}" for _, each in found],
                "ESS": [f"{each.ess:.0f}" for _, each in found],
                "R-hat": [f"{each.rhat:.3f}" for _, each in found],
                "autocorrelation": [f"{each.autocorrelation_time:.1f}" for _, each in found],
            }
            parts.append(_table(scalars))
        return extra("rich.console", _PURPOSE).Group(*parts)

    def show(self) -> None:
        """Print the tables."""
        extra("rich", _PURPOSE).print(self)


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    return f"{estimate}, undetermined" if estimate.outcome == "undetermined" else str(estimate)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _range(low: float, high: float) -> str:
    return f"{low:.3g}" if low == high else f"{low:.3g} … {high:.3g}"


def _table(columns: dict[str, list[str]]) -> Any:
    """A table of the columns that are not empty."""
    table = extra("rich.table", _PURPOSE).Table()
    shown = {title: cells for title, cells in columns.items() if any(cells)}
    for title in shown:
        table.add_column(title)
    for row in zip(*shown.values(), strict=True):
        table.add_row(*row)
    return table
