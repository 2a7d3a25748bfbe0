"""What is stored of a training that has come to its end."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.parts import Part
from colangevin.experiments.judging import plane
from colangevin.experiments.judging.curves import best_of_curves, from_curves
from colangevin.experiments.judging.probabilities import pack
from colangevin.experiments.training.network_training import NetworkTraining
from colangevin.experiments.training.posterior_training import PosteriorTraining
from colangevin.experiments.training.singular_values import row_norms, singular_values
from colangevin.experiments.training.stack_training import StackTraining

__all__ = ["of_a_network", "of_a_posterior", "of_a_stack", "shared_by_chains"]

Array = NDArray[Any]


def of_a_network(
    training: NetworkTraining, curves: dict[str, Array]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """What a network has come to.

    Args:
        training: at its end.
        curves: of shape (points, 1, 1) by name.

    Returns:
        What goes into the JSON file, and further arrays.
    """
    layers, spectra = singular_values(training.model)
    values = {**from_curves(curves), **best_of_curves(curves)}
    result = {
        "methods": [training.method.name],
        "values": {name: _listed(table) for name, table in values.items()},
        "lost": [int(training.lost)],
        "violation": [training.violation()],
        "layers": layers,
    }
    return result, {"singular_values": spectra, "row_norms": row_norms(training.model)}


def of_a_posterior(
    training: PosteriorTraining, curves: dict[str, Array]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """What a chain has come to: its numbers, what it predicts, and what R-hat compares.

    Args:
        training: at its end.
        curves: of shape (points, 1, 1) by name.

    Returns:
        What goes into the JSON file, and further arrays, each of shape (1, 1, ...).
    """
    result = {
        "methods": [training.method.name],
        "values": {name: _listed(table) for name, table in from_curves(curves).items()},
        "lost": [int(training.lost)],
        "violation": [training.violation()],
    }
    traces = {name: trace.numpy().astype(np.float16)[None, None] for name, trace in training.traces().items()}
    return result, {"predictions": pack(training.predictions())[None, None], **traces}


def shared_by_chains(training: PosteriorTraining) -> dict[str, Array]:
    """What all chains of a part are judged by, for reports: HMC's predictions, and the right classes."""
    labels = training.task.y_test.cpu().numpy().astype(np.uint8)
    return {"reference": pack(training.task.reference, np.uint16), "labels": labels}


def of_a_stack(
    experiment: Experiment,
    part: Part,
    training: StackTraining,
    curves: dict[str, Array],
    looking: Callable[[int, int], None],
) -> tuple[dict[str, Any], dict[str, Array]]:
    """What a stack has come to, with a look at the plane where the experiment asks for one.

    Args:
        experiment: says what to look at.
        part: that was trained.
        training: at its end.
        curves: of shape (points, methods, runs) by name.
        looking: told how many classifiers have had their boundary measured, and of how many.

    Returns:
        What goes into the JSON file, and further arrays.
    """
    stack = training.stack
    values = from_curves(curves)
    arrays: dict[str, Array] = {}
    if experiment.plane != "nothing":
        edge = plane.EDGES[part.problem.data]
        arrays.update(plane.look(stack.model, len(part.methods), edge))
        points = training.data.x.cpu().numpy().astype(np.float32)
        arrays.update(train_x=points, train_y=training.data.y.cpu().numpy().astype(np.uint8))
        if experiment.plane == "curvature":
            numbers, gradients = plane.measure(stack.model, len(part.methods), edge, looking)
            values.update(numbers)
            arrays.update(gradients)
    result = {
        "methods": [method.name for method in part.methods],
        "values": {name: _listed(table) for name, table in values.items()},
        "lost": stack.lost.sum(1).tolist(),
        "violation": stack.violation(),
    }
    return result, arrays


def _listed(table: Array) -> list[list[float | None]]:
    """Numbers for JSON, which knows no NaN."""
    return [[float(value) if np.isfinite(value) else None for value in row] for row in table]
