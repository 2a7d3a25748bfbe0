"""Methods on one problem: what an experiment consists of."""

from dataclasses import dataclass

from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.names import slug
from colangevin.experiments.catalogue.problems import NetworkProblem, Problem

__all__ = ["NetworkPart", "Part"]


@dataclass(frozen=True)
class Part:
    """Methods on one problem, all trained together as one batched model."""

    name: str
    problem: Problem
    methods: tuple[Method, ...]

    @property
    def slug(self) -> str:
        """The name as a file name."""
        return slug(self.name)


@dataclass(frozen=True)
class NetworkPart:
    """Methods on one problem whose networks are too large to be stacked: every run is trained by itself."""

    name: str
    problem: NetworkProblem
    methods: tuple[Method, ...]

    @property
    def slug(self) -> str:
        """The name as a file name."""
        return slug(self.name)
