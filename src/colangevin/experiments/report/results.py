"""Results as the report needs them, read from disk."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colangevin.experiments import catalogue
from colangevin.experiments.description import Experiment, NetworkPart, Part
from colangevin.experiments.jobs import Job, jobs
from colangevin.experiments.store import Folder, StoreError
from colangevin.experiments.verdicts import Finding, judge

__all__ = ["PartResult", "Result", "load"]

Array = NDArray[Any]


@dataclass(frozen=True)
class PartResult:
    """A part of which at least one job is complete; numbers of the others are NaN.

    Attributes:
        part: what was trained.
        values: what it came to, of shape (methods, runs) by measure.
        lost: for each method how many runs left the finite numbers.
        violation: for each method the largest violation of its constraints.
        arrays: curves and pictures.
        done: which runs of which methods are complete, of shape (methods, runs).
        layers: names of the weights whose singular values there are.
    """

    part: Part | NetworkPart
    values: dict[str, Array]
    lost: list[int]
    violation: list[float]
    arrays: dict[str, Array]
    done: Array
    layers: list[str]

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
        parts: those of which there is something.
        missing: names of the jobs that are not complete.
    """

    experiment: Experiment
    run: dict[str, Any]
    parts: list[PartResult]
    missing: list[str]

    @cached_property
    def findings(self) -> list[Finding]:
        """What became of the claims whose method and one baseline at least have a complete run."""
        found = []
        for claim in self.experiment.claims:
            name = self.experiment.part(claim.part).name
            for each in self.parts:
                ran = {method for method, done in zip(each.methods, each.done, strict=True) if done.any()}
                if each.part.name == name and claim.method in ran and ran & set(claim.baselines):
                    found.append(judge(claim, each.methods, each.values))
        return found

    def reported(self, part: Part | NetworkPart, method: str, measure: str) -> str:
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
    names = [experiment.name for experiment in catalogue.EXPERIMENTS]
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
    complete = [job for job in jobs(experiment) if stored.done(job)]
    parts = [
        _gather(experiment, part, stored, [job for job in complete if job.part == part])
        for part in experiment.parts
        if any(job.part == part for job in complete)
    ]
    missing = [job.name for job in jobs(experiment) if job not in complete]
    return Result(experiment, run, parts, missing)


def _gather(
    experiment: Experiment, part: Part | NetworkPart, stored: Folder, complete: list[Job]
) -> PartResult:
    """The results of a part's jobs as one."""
    shape = (len(part.methods), experiment.runs)
    values: dict[str, Array] = {}
    arrays: dict[str, Array] = {}
    lost, violation, done = [0] * shape[0], [0.0] * shape[0], np.zeros(shape, dtype=bool)
    layers: list[str] = []
    step_ms = stored.run().get("step_ms", {})
    for job in complete:
        measured, own = stored.read(job)
        layers = measured.get("layers", [])
        tables = {name: np.array(table, dtype=float) for name, table in measured["values"].items()}
        if job.name in step_ms:
            tables["time per step"] = np.array([[step_ms[job.name]]])
        for i, method in enumerate(job.methods):
            number = part.methods.index(method)
            lost[number] += measured["lost"][i]
            violation[number] = max(violation[number], measured["violation"][i])
            done[number, list(job.runs)] = True
        if isinstance(part, Part):
            values, arrays = tables, own
            continue
        place = part.methods.index(job.methods[0]), job.runs[0]
        for name, table in tables.items():
            values.setdefault(name, np.full(shape, np.nan))[place] = table[0, 0]
        for name, array in own.items():
            _place(arrays, name, array, shape, place)
    return PartResult(part, values, lost, violation, arrays, done, layers)


def _place(
    arrays: dict[str, Array], name: str, array: Array, shape: tuple[int, int], place: tuple[int, int]
) -> None:
    """Put the array of one run where it belongs among those of all."""
    if name == "epochs":
        arrays[name] = array
    elif name == "singular_values":
        arrays.setdefault(name, np.full((*shape, *array.shape[2:]), np.nan, array.dtype))[place] = array[0, 0]
    else:
        curves = arrays.setdefault(name, np.full((len(array), *shape), np.nan, array.dtype))
        curves[:, place[0], place[1]] = array[:, 0, 0]
