"""Results as the report needs them, read from disk."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colangevin.experiments.catalogue import EXPERIMENTS
from colangevin.experiments.description import Experiment, Part
from colangevin.experiments.store import Folder, StoreError
from colangevin.experiments.verdicts import Finding, judge

__all__ = ["PartResult", "Result", "load"]

Array = NDArray[Any]


@dataclass(frozen=True)
class PartResult:
    """A complete part.

    Attributes:
        part: what was trained.
        values: what it came to, of shape (methods, runs) by measure.
        lost: for each method how many runs left the finite numbers.
        violation: for each method the largest violation of its constraints.
        arrays: curves and pictures.
    """

    part: Part
    values: dict[str, Array]
    lost: list[int]
    violation: list[float]
    arrays: dict[str, Array]

    @property
    def methods(self) -> list[str]:
        """Their names."""
        return [method.name for method in self.part.methods]


@dataclass(frozen=True)
class Result:
    """An experiment that was run, at least in part.

    Attributes:
        experiment: as it was run.
        run: what ``run.json`` says.
        parts: those that are complete.
        missing: names of those that are not.
    """

    experiment: Experiment
    run: dict[str, Any]
    parts: list[PartResult]
    missing: list[str]

    @cached_property
    def findings(self) -> list[Finding]:
        """What became of the claims about complete parts."""
        found = []
        for claim in self.experiment.claims:
            name = self.experiment.part(claim.part).name
            for each in self.parts:
                if each.part.name == name:
                    found.append(judge(claim, each.methods, each.values))
        return found

    def reported(self, part: Part, method: str, measure: str) -> str:
        """The paper's number; empty when it prints none."""
        for each in self.experiment.reported:
            if self.experiment.part(each.part) == part and (each.method, each.measure) == (method, measure):
                return each.text
        return ""


def load(folder: Path) -> list[Result]:
    """Everything there is in a folder, in the order of the catalogue.

    Args:
        folder: of results.

    Returns:
        One for each experiment with a complete part.

    Raises:
        StoreError: when there is none.
    """
    names = [experiment.name for experiment in EXPERIMENTS]
    results = []
    for name in names:
        stored = Folder(folder, name)
        if stored.started:
            result = _read(stored)
            if result.parts:
                results.append(result)
    if not results:
        raise StoreError(
            f"{folder} has no complete results to report on. Make some with "
            f"'colangevin run NAME --out {folder}'; 'colangevin list' shows the names."
        )
    return results


def _read(stored: Folder) -> Result:
    run = stored.run()
    experiment = Experiment.from_json(run["experiment"])
    parts, missing = [], []
    for part in experiment.parts:
        if not stored.done(part):
            missing.append(part.name)
            continue
        measured, arrays = stored.read(part)
        values = {name: np.array(table, dtype=float) for name, table in measured["values"].items()}
        parts.append(PartResult(part, values, measured["lost"], measured["violation"], arrays))
    return Result(experiment, run, parts, missing)
