"""The results of a part's jobs, read from disk, checked, and put together."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.jobs import Job
from colangevin.experiments.catalogue.parts import NetworkPart, Part
from colangevin.experiments.catalogue.problems import PosteriorProblem
from colangevin.experiments.judging.curves import CURVES
from colangevin.experiments.report.contents import (
    OF_CHAINS,
    OF_WEIGHTS,
    Measured,
    check_arrays,
    check_shared,
    read_measured,
)
from colangevin.experiments.storage.archives import MOST_BYTES, Arrays
from colangevin.experiments.storage.disk import StoreError
from colangevin.experiments.storage.folder import Folder

__all__ = ["Budget", "PartResult", "gather"]

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


class Budget:
    """The memory that the arrays of a report may still take. An array is refused before it is made."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    def full(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array of NaN, or of zeros where numbers are whole."""
        self.take(math.prod(shape) * np.dtype(dtype).itemsize)
        return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 0, dtype)

    def take(self, number: int) -> None:
        self._left -= number
        if self._left < 0:
            raise ValueError(f"with it the report would need more than {MOST_BYTES:,} bytes of arrays")


def gather(
    experiment: Experiment,
    part: Part | NetworkPart,
    stored: Folder,
    step_ms: dict[str, float],
    complete: list[Job],
    budget: Budget,
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
    if isinstance(part.problem, PosteriorProblem):
        shared = stored.shared(part)
        try:
            check_shared(result.arrays["predictions"], shared)
        except ValueError as error:
            raise _unfit(stored.path / f"{part.slug}.shared.npz", error) from error
        result.arrays.update(shared)
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


def _add(result: PartResult, job: Job, measured: Measured, arrays: Arrays, budget: Budget) -> None:
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
    for name in (*CURVES, *OF_WEIGHTS, *OF_CHAINS):
        if name in arrays:
            _place(result.arrays, name, arrays[name], shape, place, budget)


def _place(
    arrays: Arrays, name: str, array: Array, shape: tuple[int, ...], place: tuple[int, int], budget: Budget
) -> None:
    """Put the array of one run among those of all."""
    methods_first = name in OF_WEIGHTS | OF_CHAINS
    if name not in arrays:
        whole = (*shape, *array.shape[2:]) if methods_first else (len(array), *shape)
        arrays[name] = budget.full(whole, array.dtype)
    if methods_first:
        if array.shape[2:] != arrays[name].shape[2:]:
            raise ValueError(f"its array {name!r} is not of the shape of another job's")
        arrays[name][place] = array[0, 0]
    else:
        arrays[name][:, place[0], place[1]] = array[:, 0, 0]
