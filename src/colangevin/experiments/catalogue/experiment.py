"""An experiment: what is trained, how often and how long, and what the paper says about it."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from colangevin.experiments.catalogue.claims import Claim, Reported
from colangevin.experiments.catalogue.measures import MEASURES
from colangevin.experiments.catalogue.names import check_distinct, check_plain
from colangevin.experiments.catalogue.parts import NetworkPart, Part

__all__ = ["MOST_TRAININGS", "Experiment", "Quick"]

#: most trainings of one experiment, so that a report can hold it in memory; the paper's largest has 1,000
MOST_TRAININGS = 100_000


@dataclass(frozen=True)
class Quick:
    """A small form of an experiment.

    Attributes:
        runs: of every method.
        epochs: of every training.
        parts: that are trained; None for all.
        sizes: settings of their problems that differ, by name.
    """

    runs: int
    epochs: int
    parts: tuple[str, ...] | None = None
    sizes: tuple[tuple[str, int | str], ...] = ()


@dataclass(frozen=True)
class Experiment:
    """Some figures and tables of the paper that come from the same trainings.

    Attributes:
        name: on the command line.
        title: in a line.
        covers: figures and tables, as ``fig4`` and ``tabD2``; each is a name on the command line too.
        about: what is done and where the paper leaves a choice, in a few sentences.
        parts: what is trained. All have equally many methods, which the report compares by their place.
        runs: repetitions of every method.
        epochs: of every training.
        claims: what the paper says.
        reported: the numbers it prints.
        plane: what to look at of classifiers in the plane: nothing, pictures, or also the curvature of their
            decision boundary and the gradients of their prediction.
        quick: the small form.
        points: how many times a training is measured, evenly spaced, the end included.
        seed: of data, initial weights, batches and noise.
    """

    name: str
    title: str
    covers: tuple[str, ...]
    about: str
    parts: tuple[Part | NetworkPart, ...]
    runs: int
    epochs: int
    claims: tuple[Claim, ...]
    quick: Quick
    reported: tuple[Reported, ...] = ()
    plane: Literal["nothing", "pictures", "curvature"] = "nothing"
    points: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        for name in (self.name, *self.covers):
            check_plain(name)
        check_distinct("part", [part.name for part in self.parts])
        for part in self.parts:
            check_distinct("method", [method.name for method in part.methods])
        if len({len(part.methods) for part in self.parts}) > 1:
            raise ValueError("all parts must have equally many methods, which are compared by their place")
        if min(self.runs, self.epochs, self.points) < 1:
            raise ValueError("runs, epochs and points must be at least 1")
        trainings = self.runs * sum(len(part.methods) for part in self.parts)
        if trainings > MOST_TRAININGS:
            raise ValueError(
                f"runs {self.runs:,} of every method are {trainings:,} trainings; at most "
                f"{MOST_TRAININGS:,} fit in one folder. Choose fewer runs."
            )
        for claim in self.claims:
            self._check_measured(claim.measure, claim.part, claim.method, *claim.baselines)
            if not claim.baselines:
                raise ValueError(f"a claim about {claim.method!r} has no baseline")
            if claim.margin and MEASURES[claim.measure].decades:
                raise ValueError(
                    f"a claim about {claim.measure!r} has a margin, a difference, where ratios are compared"
                )
        for number in self.reported:
            self._check_measured(number.measure, number.part, number.method)

    def _check_measured(self, measure: str, part: str | None, *methods: str) -> None:
        """Refuse a claim or a number about a measure, part or method that is not there."""
        if measure not in MEASURES:
            raise ValueError(f"measure {measure!r} must be one of {', '.join(MEASURES)}")
        if part is not None and part not in [each.name for each in self.parts]:
            raise ValueError(f"a claim or number is about part {part!r}, which is not there")
        known = [method.name for method in self.part(part).methods]
        for method in methods:
            if method not in known:
                raise ValueError(f"a claim or number is about method {method!r}, which is not there")

    def part(self, name: str | None) -> Part | NetworkPart:
        """The part of that name, or the first for None."""
        return next(part for part in self.parts if name in (None, part.name))

    def resized(self, runs: int | None, epochs: int | None, *, quick: bool) -> "Experiment":
        """The experiment in another size: the small form when ``quick``, and then what is given."""
        small = self
        if quick:
            parts = self.parts
            if self.quick.parts is not None:
                parts = tuple(part for part in parts if part.name in self.quick.parts)
            sizes: dict[str, Any] = dict(self.quick.sizes)
            parts = tuple(_resized(part, **sizes) for part in parts)
            names = {None, *(part.name for part in parts)}
            small = replace(
                self,
                parts=parts,
                runs=self.quick.runs,
                epochs=self.quick.epochs,
                claims=tuple(claim for claim in self.claims if claim.part in names),
                reported=tuple(each for each in self.reported if each.part in names),
            )
        return replace(small, runs=runs or small.runs, epochs=epochs or small.epochs)


def _resized(part: Part | NetworkPart, **sizes: Any) -> Part | NetworkPart:
    # The two branches are alike; each tells mypy which kind of problem it replaces.
    if isinstance(part, Part):
        return replace(part, problem=replace(part.problem, **sizes))
    return replace(part, problem=replace(part.problem, **sizes))
