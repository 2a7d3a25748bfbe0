"""Whether the files of a job hold what a report draws, of the size that their experiment says."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.jobs import Job
from colangevin.experiments.catalogue.problems import PosteriorProblem
from colangevin.experiments.judging.chains import TRACES
from colangevin.experiments.judging.curves import CURVES
from colangevin.experiments.judging.plane import EDGES, LEVELS
from colangevin.experiments.storage.archives import Arrays
from colangevin.experiments.storage.decoding import decode

__all__ = ["OF_CHAINS", "OF_WEIGHTS", "Measured", "check_arrays", "check_shared", "read_measured"]

#: arrays of numbers of every weight, of shape (methods, runs, weights, most)
OF_WEIGHTS = {"singular_values", "row_norms"}
#: arrays of chains: predictions, of shape (methods, runs, images, classes), and traces, of shape
#: (methods, runs, points, numbers)
OF_CHAINS = {"predictions", *TRACES}

# Every training has these curves, and the report draws them.
_CURVES = ("train_loss", "test_loss", "test_accuracy")
# A table of the curvature needs all of these.
_CURVATURE = {"curvature", "curvature std", "curvature max", "curvature points"}


@dataclass(frozen=True)
class Measured:
    """What was measured in the end of a job.

    Attributes:
        methods: their names.
        values: of shape (methods, runs) by measure, NaN where there is no number.
        lost: for each method how many runs left the finite numbers.
        violation: for each method the largest violation of its constraints.
        layers: names of the weights whose singular values there are.
    """

    methods: tuple[str, ...]
    values: dict[str, Any]
    lost: tuple[int, ...]
    violation: tuple[float, ...]
    layers: tuple[str, ...] = ()


def read_measured(job: Job, stored: dict[str, Any]) -> Measured:
    """The contents of a job's JSON file, checked.

    Args:
        job: the job.
        stored: what its file says.

    Returns:
        The same as numbers.

    Raises:
        ValueError: when it is not what the job measures.
    """
    found: Measured = decode(Measured, stored, "it")
    names = tuple(method.name for method in job.methods)
    if found.methods != names:
        raise ValueError("its methods are not those of its job")
    if not len(found.lost) == len(found.violation) == len(names):
        raise ValueError("lost and violation must have a number for every method")
    values = {}
    for name, table in found.values.items():
        try:
            values[name] = np.array(table, dtype=float)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"values of {name!r} are not numbers") from error
        _expect_shape(f"values of {name!r}", values[name], (len(names), len(job.runs)))
    if "test accuracy" not in values:
        raise ValueError("it has no test accuracy")
    if _CURVATURE & values.keys() and not values.keys() >= _CURVATURE:
        raise ValueError(f"it must have all or none of {', '.join(sorted(_CURVATURE))}")
    return replace(found, values=values)


def check_arrays(experiment: Experiment, job: Job, measured: Measured, arrays: Arrays) -> None:
    """Refuse arrays of a job that cannot be drawn.

    Args:
        experiment: to which the job belongs.
        job: the job.
        measured: what its other file says.
        arrays: the contents of its npz file.

    Raises:
        ValueError: when one is missing or is not what it should be.
    """
    methods, runs = len(job.methods), len(job.runs)
    points = min(experiment.points, experiment.epochs)
    if missing := {"epochs", *_CURVES} - arrays.keys():
        raise ValueError(f"it has no array {min(missing)!r}")
    _expect("epochs", arrays["epochs"], (points,), "iu")
    for name in CURVES.keys() & arrays.keys():
        _expect(name, arrays[name], (points, methods, runs), "f")
    for name in OF_WEIGHTS & arrays.keys():
        _expect(name, arrays[name], (methods, runs, len(measured.layers), None), "f")
    if isinstance(job.part.problem, PosteriorProblem):
        if missing := (OF_CHAINS | {"first_temperature", "total_variation"}) - arrays.keys():
            raise ValueError(f"it has no array {min(missing)!r}")
        _expect("predictions", arrays["predictions"], (methods, runs, None, None), "u")
        for name in TRACES:
            _expect(name, arrays[name], (methods, runs, points, None), "f")
    if "picture" in arrays or "gradient_mean" in arrays:
        if job.part.problem.data not in EDGES:
            raise ValueError(f"it has pictures of the plane, in which no {job.part.problem.data} lies")
        _check_plane(methods, runs, measured, arrays)


def check_shared(predictions: NDArray[Any], shared: Arrays) -> None:
    """Refuse what chains are to be judged by, if it is not about the data that they predict.

    Args:
        predictions: of chains, of shape (methods, runs, images, classes).
        shared: HMC's predictions and the right classes.

    Raises:
        ValueError: when one is missing or is not what it should be.
    """
    if missing := {"reference", "labels"} - shared.keys():
        raise ValueError(f"it has no array {min(missing)!r}")
    images, classes = predictions.shape[2:]
    _expect("reference", shared["reference"], (images, classes), "u")
    _expect("labels", shared["labels"], (images,), "u")
    if (shared["labels"] >= classes).any():
        raise ValueError(f"array 'labels' has classes beyond the {classes} there are")
    if not shared["reference"].any(1).all():
        raise ValueError("array 'reference' has images without probabilities")


def _check_plane(methods: int, runs: int, measured: Measured, arrays: Arrays) -> None:
    if "gradient_mean" in arrays:
        _expect("gradient_mean", arrays["gradient_mean"], (methods, 2, None), "f")
        if "curvature" not in measured.values:
            raise ValueError("it has gradients without a curvature")
    if "picture" in arrays:
        picture = arrays["picture"]
        _expect("picture", picture, (methods, runs, None, None), "u")
        _expect("picture", picture, (methods, runs, picture.shape[-1], picture.shape[-1]), "u")
        if (picture >= LEVELS).any():
            raise ValueError(f"array 'picture' has shades beyond the {LEVELS} there are")
        if not {"train_x", "train_y"} <= arrays.keys():
            raise ValueError("it has pictures without the points they were trained on")
        _expect("train_y", arrays["train_y"], (None, None), "u")
        _expect("train_x", arrays["train_x"], (*arrays["train_y"].shape, 2), "f")


def _expect(name: str, array: NDArray[Any], shape: tuple[int | None, ...], kinds: str) -> None:
    _expect_shape(f"array {name!r}", array, shape)
    if array.dtype.kind not in kinds:
        raise ValueError(f"array {name!r} is of type {array.dtype}")


def _expect_shape(what: str, array: NDArray[Any], shape: tuple[int | None, ...]) -> None:
    """Refuse an array of another shape; None in a shape stands for any number but 0."""
    fits = array.ndim == len(shape) and all(
        has == must if must is not None else has > 0 for has, must in zip(array.shape, shape, strict=True)
    )
    if not fits:
        words = ", ".join("any" if must is None else str(must) for must in shape)
        raise ValueError(f"{what} are of shape {array.shape}; it must be ({words})")
