"""Results as the report needs them, read from disk."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colangevin.experiments.catalogue import index
from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.jobs import Job, jobs
from colangevin.experiments.catalogue.parts import NetworkPart, Part
from colangevin.experiments.judging.curves import CURVES
from colangevin.experiments.judging.verdicts import Finding, judge
from colangevin.experiments.report.contents import Measured, check_arrays, read_measured
from colangevin.experiments.storage.archives import MOST_BYTES, Arrays
from colangevin.experiments.storage.disk import StoreError
from colangevin.experiments.storage.folder import Folder
from colangevin.experiments.storage.record import Record

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
    run: Record
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
    names = [experiment.name for experiment in index.EXPERIMENTS]
    results, budget = [], _Budget()
    for name in names:
        stored = Folder(folder, name)
        if stored.started:
            result = _read(stored, budget)
            if result.parts:
                results.append(result)
    if not results:
        raise StoreError(
            f"{folder} has no complete results to report on. Make some with "
            f"'colangevin run NAME --out {folder}'; 'colangevin list' shows the names."
        )
    return results


def _read(stored: Folder, budget: "_Budget") -> Result:
    run, experiment = stored.run(), stored.experiment()
    complete = [job for job in jobs(experiment) if stored.stored(job)]
    parts = []
    for part in experiment.parts:
        mine = [job for job in complete if job.part == part]
        if mine:
            parts.append(_gather(experiment, part, stored, run.step_ms, mine, budget))
    missing = [job.name for job in jobs(experiment) if job not in complete]
    return Result(experiment, run, parts, missing)


class _Budget:
    """How much memory the arrays of a report may still take; each is asked for before it is made."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    def full(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array of NaN."""
        self.take(math.prod(shape) * np.dtype(dtype).itemsize)
        return np.full(shape, np.nan, dtype)

    def take(self, number: int) -> None:
        self._left -= number
        if self._left < 0:
            raise ValueError(f"with it the report would need more than {MOST_BYTES:,} bytes of arrays")


def _gather(
    experiment: Experiment,
    part: Part | NetworkPart,
    stored: Folder,
    step_ms: dict[str, float],
    complete: list[Job],
    budget: _Budget,
) -> PartResult:
    """The results of a part's jobs as one."""
    shape = (len(part.methods), experiment.runs)
    result = PartResult(part, {}, [0] * shape[0], [0.0] * shape[0], {}, np.zeros(shape, dtype=bool), [])
    for job in complete:
        read, arrays = stored.read(job)
        try:
            measured = read_measured(job, read)
        except ValueError as error:
            raise _unfit(stored.file(job, "json"), error) from error
        if job.name in step_ms:
            measured.values["time per step"] = np.full((len(job.methods), len(job.runs)), step_ms[job.name])
        try:
            check_arrays(experiment, job, measured, arrays)
            _add(result, job, measured, arrays, budget)
        except ValueError as error:
            raise _unfit(stored.file(job, "npz"), error) from error
    claimed = {claim.measure for claim in experiment.claims if experiment.part(claim.part) == part}
    if missing := claimed - result.values.keys():
        reason = f"it has a claim about {min(missing)!r}, which was not measured"
        raise _unfit(stored.path / "run.json", reason)
    return result


def _unfit(path: Path, reason: object) -> StoreError:
    return StoreError(
        f"{path} is whole but cannot be reported on: {str(reason)[:300]}. Move it out of the folder, then "
        "run the experiment again with --resume."
    )


def _add(result: PartResult, job: Job, measured: Measured, arrays: Arrays, budget: _Budget) -> None:
    """Put the results of a job where they belong among those of its part."""
    part, shape = result.part, result.done.shape
    for i, method in enumerate(job.methods):
        number = part.methods.index(method)
        result.lost[number] += measured.lost[i]
        result.violation[number] = max(result.violation[number], measured.violation[i])
        result.done[number, list(job.runs)] = True
    if isinstance(part, Part):
        budget.take(sum(array.nbytes for array in arrays.values()))
        result.values.update(measured.values)
        result.arrays.update(arrays)
        result.layers.extend(measured.layers)
        return
    if result.layers and tuple(result.layers) != measured.layers:
        raise ValueError("its layers are not those of another job")
    result.layers[:] = measured.layers
    place = part.methods.index(job.methods[0]), job.runs[0]
    for name, table in measured.values.items():
        if name not in result.values:
            result.values[name] = budget.full(shape, float)
        result.values[name][place] = table[0, 0]
    result.arrays["epochs"] = arrays["epochs"]
    for name in (*CURVES, "singular_values"):
        if name in arrays:
            _place(result.arrays, name, arrays[name], shape, place, budget)


def _place(
    arrays: Arrays, name: str, array: Array, shape: tuple[int, ...], place: tuple[int, int], budget: _Budget
) -> None:
    """Put the array of one run among those of all."""
    methods_first = name == "singular_values"
    if name not in arrays:
        whole = (*shape, *array.shape[2:]) if methods_first else (len(array), *shape)
        arrays[name] = budget.full(whole, array.dtype)
    if methods_first:
        if array.shape[2:] != arrays[name].shape[2:]:
            raise ValueError(f"its array {name!r} is not of the shape of another job's")
        arrays[name][place] = array[0, 0]
    else:
        arrays[name][:, place[0], place[1]] = array[:, 0, 0]
