"""Run an experiment job by job: train, measure, store; stop and resume at any epoch."""

import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.jobs import Job, jobs
from colangevin.experiments.catalogue.parts import Part
from colangevin.experiments.catalogue.problems import PosteriorProblem
from colangevin.experiments.data.download import Progress
from colangevin.experiments.storage.disk import DamagedError
from colangevin.experiments.storage.folder import Folder
from colangevin.experiments.training.network_training import NetworkTraining
from colangevin.experiments.training.outcomes import (
    of_a_network,
    of_a_posterior,
    of_a_stack,
    shared_by_chains,
)
from colangevin.experiments.training.points import prepare
from colangevin.experiments.training.posterior_training import PosteriorTraining
from colangevin.experiments.training.stack_training import MEASURED, StackTraining
from colangevin.experiments.training.watcher import Watcher

__all__ = ["measuring_epochs", "run", "run_job", "to_do"]

#: between two checkpoints, the work that a kill may cost
CHECKPOINT_SECONDS = 30.0

Array = NDArray[Any]


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
    """Run the jobs that are not done and that no other process has claimed.

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
    return all(
        run_job(experiment, job, folder, device, watcher, stopped) for job in to_do(experiment, folder, only)
    )


def to_do(experiment: Experiment, folder: Folder, only: str) -> Iterator[Job]:
    """Jobs that are not done. What a kill left beside the files of those that are done is removed.

    Args:
        experiment: whose jobs.
        folder: where its results are.
        only: a glob that the names of jobs have to match.

    Yields:
        The jobs, in their order.
    """
    for job in jobs(experiment):
        if not fnmatchcase(job.name, only):
            continue
        if folder.done(job):
            folder.tidy(job)
        else:
            yield job


def run_job(
    experiment: Experiment,
    job: Job,
    folder: Folder,
    device: torch.device,
    watcher: Watcher,
    stopped: Callable[[], bool],
) -> bool:
    """Run a job, unless another process has claimed it.

    Args:
        experiment: to which it belongs.
        job: what to run.
        folder: where its results go; opened for the experiment.
        device: where to train.
        watcher: told how it goes.
        stopped: asked after every epoch whether to save and stop.

    Returns:
        Whether it came to the end or is another's; False when it was stopped.
    """
    with folder.claim(job) as mine:
        # another process may have finished it since it was found to be left
        if not mine or folder.done(job):
            return True
        if why := folder.damage(job):
            watcher.damaged(why)
        return _train(experiment, job, folder, device, watcher, stopped)


def _build(
    experiment: Experiment, job: Job, device: torch.device, progress: Progress
) -> StackTraining | NetworkTraining:
    """What trains a job."""
    runs, seed = experiment.runs, experiment.seed
    if isinstance(job.part, Part):
        data = prepare(job.part.problem, runs, seed, progress)
        return StackTraining(job.part, data, runs, seed, device)
    sizes: Any = {"epochs": experiment.epochs, "seed": seed, "device": device, "progress": progress}
    if isinstance(job.part.problem, PosteriorProblem):
        return PosteriorTraining(job.part.problem, job.methods[0], job.runs[0], **sizes)
    return NetworkTraining(job.part.problem, job.methods[0], job.runs[0], **sizes)


def _train(
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
        watcher.measured(job, _curves(names, measured))
    when = set(measuring_epochs(experiment))
    while training.epoch < experiment.epochs:
        training.advance()
        watcher.advanced(job, training.epoch)
        if training.epoch in when:
            measured.append(training.measure())
            watcher.measured(job, _curves(names, measured))
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
    if isinstance(training, PosteriorTraining):
        folder.share(job.part, shared_by_chains(training))
        result, more = of_a_posterior(training, curves)
        folder.finish(job, result, {**arrays, **more}, seconds, training.step_ms)
    elif isinstance(training, NetworkTraining):
        result, more = of_a_network(training, curves)
        folder.finish(job, result, {**arrays, **more}, seconds, training.step_ms)
    elif isinstance(job.part, Part):
        result, more = of_a_stack(experiment, job.part, training, curves, partial(watcher.looking, job))
        folder.finish(job, result, {**arrays, **more}, seconds)
    return True


def _checkpoint(folder: Folder, job: Job, watcher: Watcher) -> dict[str, Any] | None:
    """The checkpoint of a job; None when there is none, or a damaged one."""
    try:
        return folder.load_checkpoint(job)
    except DamagedError as error:
        watcher.damaged(str(error))
        return None


def _curves(names: tuple[str, ...], measured: list[torch.Tensor]) -> dict[str, Array]:
    """Curves of shape (points, methods, runs) by name."""
    stacked = torch.stack(measured).numpy()
    return {name: stacked[:, number] for number, name in enumerate(names)}
