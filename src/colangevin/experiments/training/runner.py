"""Run an experiment job by job: train, measure, store; stop and resume at any epoch."""

import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.jobs import Job, jobs
from colangevin.experiments.catalogue.parts import Part
from colangevin.experiments.data.download import Progress
from colangevin.experiments.judging import plane
from colangevin.experiments.judging.curves import best_of_curves, from_curves
from colangevin.experiments.storage.disk import DamagedError
from colangevin.experiments.storage.folder import Folder
from colangevin.experiments.training.network_training import NetworkTraining
from colangevin.experiments.training.points import prepare
from colangevin.experiments.training.singular_values import singular_values
from colangevin.experiments.training.stack_training import MEASURED, StackTraining

__all__ = ["Watcher", "measuring_epochs", "run"]

#: seconds of work that a kill may cost
CHECKPOINT_SECONDS = 30.0

Array = NDArray[Any]


class Watcher(Protocol):
    """Who is told how a run goes."""

    def damaged(self, why: str) -> None:
        """A file of a job is not whole, and the job starts again."""

    def begin(self, job: Job, epoch: int) -> None:
        """A job starts, or goes on, at an epoch."""

    def advanced(self, epoch: int) -> None:
        """An epoch is done, or on its way through the device."""

    def measured(self, curves: dict[str, Array]) -> None:
        """The job's curves so far, of shape (points, methods, runs)."""

    def looking(self, done: int, total: int) -> None:
        """How many classifiers have had their boundary measured."""

    def downloading(self, name: str, done: int, total: int) -> None:
        """Bytes of a file that have come, and of how many."""


def measuring_epochs(experiment: Experiment) -> list[int]:
    """After which epochs everything is measured; the last always is one."""
    points = min(experiment.points, experiment.epochs)
    return [-(-experiment.epochs * (k + 1) // points) for k in range(points)]


def run(
    experiment: Experiment,
    folder: Folder,
    device: torch.device,
    watcher: Watcher,
    stopped: Callable[[], bool],
    only: str = "*",
) -> bool:
    """Run what is not done yet and what no other process is at.

    Args:
        experiment: what to run.
        folder: where its results go; opened for it.
        device: where to train.
        watcher: told how it goes.
        stopped: asked after every epoch whether to save and stop.
        only: a glob that the names of jobs have to match.

    Returns:
        Whether it came to the end; False when it was stopped.
    """
    for job in jobs(experiment):
        if not fnmatchcase(job.name, only):
            continue
        if folder.done(job):
            folder.tidy(job)
            continue
        with folder.claim(job) as mine:
            # another process may have finished it just now
            if not mine or folder.done(job):
                continue
            if why := folder.damage(job):
                watcher.damaged(why)
            if not _run_job(experiment, job, folder, device, watcher, stopped):
                return False
    return True


def _build(
    experiment: Experiment, job: Job, device: torch.device, progress: Progress
) -> StackTraining | NetworkTraining:
    """What trains a job."""
    runs, seed = experiment.runs, experiment.seed
    if isinstance(job.part, Part):
        data = prepare(job.part.problem, runs, seed, progress)
        return StackTraining(job.part, data, runs, seed, device)
    return NetworkTraining(
        job.part.problem,
        job.methods[0],
        job.runs[0],
        epochs=experiment.epochs,
        seed=seed,
        device=device,
        progress=progress,
    )


def _run_job(
    experiment: Experiment,
    job: Job,
    folder: Folder,
    device: torch.device,
    watcher: Watcher,
    stopped: Callable[[], bool],
) -> bool:
    training = _build(experiment, job, device, watcher.downloading)
    names = MEASURED if isinstance(training, StackTraining) else training.task.curves
    measured: list[torch.Tensor] = []
    seconds = 0.0
    if (saved := _checkpoint(folder, job, watcher)) is not None:
        training.load_state_dict(saved["training"])
        measured, seconds = saved["measured"], saved["seconds"]
    started = saved_at = time.monotonic()
    watcher.begin(job, training.epoch)
    if measured:
        watcher.measured(_curves(names, measured))
    when = set(measuring_epochs(experiment))
    while training.epoch < experiment.epochs:
        training.advance()
        watcher.advanced(training.epoch)
        if training.epoch in when:
            measured.append(training.measure())
            watcher.measured(_curves(names, measured))
        stop = stopped()
        now = time.monotonic()
        if stop or now - saved_at > CHECKPOINT_SECONDS:
            state = {"training": training.state_dict(), "measured": measured}
            folder.save_checkpoint(job, {**state, "seconds": seconds + now - started})
            saved_at = time.monotonic()
        if stop:
            return False
    curves = _curves(names, measured)
    arrays = {name: curve.astype(np.float32) for name, curve in curves.items()}
    arrays["epochs"] = np.array(measuring_epochs(experiment))
    seconds += time.monotonic() - started
    if isinstance(training, NetworkTraining):
        result, more = _finish_network(training, curves)
        folder.finish(job, result, {**arrays, **more}, seconds, training.step_ms)
    elif isinstance(job.part, Part):
        result, more = _finish_stack(experiment, job.part, training, curves, watcher)
        folder.finish(job, result, {**arrays, **more}, seconds)
    return True


def _checkpoint(folder: Folder, job: Job, watcher: Watcher) -> dict[str, Any] | None:
    """Where a job was stopped; None when nowhere, or when what was saved is not whole."""
    try:
        return folder.load_checkpoint(job)
    except DamagedError as error:
        watcher.damaged(str(error))
        return None


def _finish_network(
    training: NetworkTraining, curves: dict[str, Array]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """What a network has come to in the end."""
    layers, spectra = singular_values(training.model)
    values = {**from_curves(curves), **best_of_curves(curves)}
    result = {
        "methods": [training.method.name],
        "values": {name: _listed(table) for name, table in values.items()},
        "lost": [int(training.lost)],
        "violation": [training.violation()],
        "layers": layers,
    }
    return result, {"singular_values": spectra}


def _finish_stack(
    experiment: Experiment, part: Part, training: StackTraining, curves: dict[str, Array], watcher: Watcher
) -> tuple[dict[str, Any], dict[str, Array]]:
    """What a stack has come to in the end, with a look at the plane."""
    stack = training.stack
    values = from_curves(curves)
    arrays: dict[str, Array] = {}
    if experiment.plane != "nothing":
        edge = plane.EDGES[part.problem.data]
        arrays.update(plane.look(stack.model, len(part.methods), edge))
        points = training.data.x.cpu().numpy().astype(np.float32)
        arrays.update(train_x=points, train_y=training.data.y.cpu().numpy().astype(np.uint8))
        if experiment.plane == "curvature":
            numbers, gradients = plane.measure(stack.model, len(part.methods), edge, watcher.looking)
            values.update(numbers)
            arrays.update(gradients)
    result = {
        "methods": [method.name for method in part.methods],
        "values": {name: _listed(table) for name, table in values.items()},
        "lost": stack.lost.sum(1).tolist(),
        "violation": stack.violation(),
    }
    return result, arrays


def _curves(names: tuple[str, ...], measured: list[torch.Tensor]) -> dict[str, Array]:
    """Curves of shape (points, methods, runs) by name."""
    stacked = torch.stack(measured).numpy()
    return {name: stacked[:, number] for number, name in enumerate(names)}


def _listed(table: Array) -> list[list[float | None]]:
    """Numbers for JSON, which knows no NaN."""
    return [[float(value) if np.isfinite(value) else None for value in row] for row in table]
