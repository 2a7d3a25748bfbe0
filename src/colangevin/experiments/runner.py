"""Run an experiment part by part: train, measure, store; stop and resume at any epoch."""

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from colangevin.experiments import plane
from colangevin.experiments.data import prepare
from colangevin.experiments.description import Experiment, Part
from colangevin.experiments.measures import from_curves
from colangevin.experiments.store import Folder
from colangevin.experiments.training import CURVES, Training

__all__ = ["Watcher", "measuring_epochs", "run"]

#: seconds of work that a kill may cost
CHECKPOINT_SECONDS = 30.0

Array = NDArray[Any]


class Watcher(Protocol):
    """Who is told how a run goes."""

    def begin(self, part: Part, epoch: int) -> None:
        """A part starts, or goes on, at an epoch."""

    def advanced(self, epoch: int) -> None:
        """An epoch is done, or on its way through the device."""

    def measured(self, curves: dict[str, Array]) -> None:
        """Curves so far, of shape (points, methods, runs)."""

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
) -> bool:
    """Run what is not done yet.

    Args:
        experiment: what to run.
        folder: where its results go; opened for it.
        device: where to train.
        watcher: told how it goes.
        stopped: asked after every epoch whether to save and stop.

    Returns:
        Whether everything is done.
    """
    for part in experiment.parts:
        if not folder.done(part) and not _run_part(experiment, part, folder, device, watcher, stopped):
            return False
    return True


def _run_part(
    experiment: Experiment,
    part: Part,
    folder: Folder,
    device: torch.device,
    watcher: Watcher,
    stopped: Callable[[], bool],
) -> bool:
    data = prepare(part.problem, experiment.runs, experiment.seed, watcher.downloading)
    training = Training(part, data, experiment.runs, experiment.seed, device)
    measured: list[torch.Tensor] = []
    seconds = 0.0
    if (saved := folder.load_checkpoint(part)) is not None:
        training.load_state_dict(saved["training"])
        measured, seconds = saved["measured"], saved["seconds"]
    started = saved_at = time.monotonic()
    watcher.begin(part, training.epoch)
    if measured:
        watcher.measured(_curves(measured))
    when = set(measuring_epochs(experiment))
    while training.epoch < experiment.epochs:
        training.advance()
        watcher.advanced(training.epoch)
        if training.epoch in when:
            measured.append(training.measure())
            watcher.measured(_curves(measured))
        stop = stopped()
        now = time.monotonic()
        if stop or now - saved_at > CHECKPOINT_SECONDS:
            state = {"training": training.state_dict(), "measured": measured}
            folder.save_checkpoint(part, {**state, "seconds": seconds + now - started})
            saved_at = time.monotonic()
        if stop:
            return False
    _finish(experiment, part, folder, training, measured, watcher, seconds + time.monotonic() - started)
    return True


def _finish(
    experiment: Experiment,
    part: Part,
    folder: Folder,
    training: Training,
    measured: list[torch.Tensor],
    watcher: Watcher,
    seconds: float,
) -> None:
    """Measure what is measured once, and store the part."""
    stack = training.stack
    curves = _curves(measured)
    values = from_curves(curves)
    arrays = {name: curve.astype(np.float32) for name, curve in curves.items()}
    arrays["epochs"] = np.array(measuring_epochs(experiment))
    if experiment.plane != "nothing":
        edge = plane.EDGES[part.problem.data]
        arrays.update(plane.look(stack, edge))
        points = training.data.x.cpu().numpy().astype(np.float32)
        arrays.update(train_x=points, train_y=training.data.y.cpu().numpy().astype(np.uint8))
        if experiment.plane == "curvature":
            numbers, gradients = plane.measure(stack, edge, watcher.looking)
            values.update(numbers)
            arrays.update(gradients)
    result = {
        "methods": [method.name for method in part.methods],
        "values": {name: _listed(table) for name, table in values.items()},
        "lost": stack.lost.sum(1).tolist(),
        "violation": stack.violation(),
    }
    folder.finish(part, result, arrays, seconds)


def _curves(measured: list[torch.Tensor]) -> dict[str, Array]:
    """Curves of shape (points, methods, runs) by name."""
    stacked = torch.stack(measured).numpy()
    return {name: stacked[:, number] for number, name in enumerate(CURVES)}


def _listed(table: Array) -> list[list[float | None]]:
    """Numbers for JSON, which knows no NaN."""
    return [[float(value) if np.isfinite(value) else None for value in row] for row in table]
