"""What is trained by itself and stored in files of its own."""

from dataclasses import dataclass

from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.names import slug
from colangevin.experiments.catalogue.parts import NetworkPart, Part

__all__ = ["Job", "jobs"]


@dataclass(frozen=True)
class Job:
    """A whole :class:`Part`, which is trained as one batched model, or one run of one method of a network.

    Attributes:
        name: in words.
        slug: as a file name.
        part: to which it belongs.
        methods: those of the part that it trains.
        runs: the numbers of their runs.
    """

    name: str
    slug: str
    part: Part | NetworkPart
    methods: tuple[Method, ...]
    runs: tuple[int, ...]


def jobs(experiment: Experiment) -> list[Job]:
    """All jobs of an experiment, first runs first: results that are not complete then compare all methods."""
    runs = tuple(range(experiment.runs))
    stacked = [
        Job(part.name, part.slug, part, part.methods, runs)
        for part in experiment.parts
        if isinstance(part, Part)
    ]
    single = [_run(part, method, run) for run in runs for part, method in _networks(experiment)]
    return stacked + single


def _networks(experiment: Experiment) -> list[tuple[NetworkPart, Method]]:
    parts = [part for part in experiment.parts if isinstance(part, NetworkPart)]
    return [(part, method) for part in parts for method in part.methods]


def _run(part: NetworkPart, method: Method, run: int) -> Job:
    name = f"{part.name}: {method.name}, run {run + 1}"
    return Job(name, f"{part.slug}.{slug(method.name)}.{run + 1}", part, (method,), (run,))
