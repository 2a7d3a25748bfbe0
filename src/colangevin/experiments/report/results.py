"""Results as the report needs them, read from disk."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from colangevin.experiments.catalogue import index
from colangevin.experiments.catalogue.claims import Claim
from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.jobs import jobs
from colangevin.experiments.catalogue.parts import NetworkPart, Part
from colangevin.experiments.judging.verdicts import Finding, judge
from colangevin.experiments.report.gathering import Budget, PartResult, gather
from colangevin.experiments.storage.disk import StoreError
from colangevin.experiments.storage.folder import Folder
from colangevin.experiments.storage.record import Record

__all__ = ["Picture", "Result", "Subject", "load"]


Picture = Literal["parts", "boundaries", "gradients", "runs", "curves"]

# More curves in one plot cannot be told apart.
_MOST_CURVES = 10


class Subject(NamedTuple):
    """What an experiment is about.

    Attributes:
        part: its place among the parts there are.
        method: its place among the methods.
        baseline: the place of the first it is compared with.
        measure: what is compared.
    """

    part: int
    method: int
    baseline: int
    measure: str


@dataclass(frozen=True)
class Result:
    """An experiment that was run, at least in part.

    Attributes:
        experiment: as it was run, with the claims that the catalogue makes of it today.
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

    @cached_property
    def subject(self) -> Subject:
        """What plots open on: what the first claim of which there are runs is about."""
        for claim in self.experiment.claims:
            part = self.experiment.part(claim.part)
            names = [method.name for method in part.methods]
            for number, each in enumerate(self.parts):
                ran = [place for place in range(len(names)) if each.done[place].any()]
                baselines = [place for place in map(names.index, claim.baselines) if place in ran]
                method = names.index(claim.method)
                if each.part == part and method in ran and baselines and self._has(claim.measure):
                    return Subject(number, method, baselines[0], claim.measure)
        ran = [place for place, done in enumerate(self.parts[0].done) if done.any()]
        losses = "lowest validation loss"
        return Subject(0, ran[-1], ran[0], losses if self._has(losses) else "test accuracy")

    def _has(self, measure: str) -> bool:
        return all(measure in each.values for each in self.parts)

    @property
    def best_picture(self) -> Picture:
        """The kind of picture that shows the first claim best."""
        if len(self.parts) > 1:
            return "parts"
        first, measure = self.parts[0], self.subject.measure
        if measure == "sharpest transition" and "gradient_mean" in first.arrays:
            return "gradients"
        if measure == "time per step" or len(first.methods) > _MOST_CURVES:
            return "runs"
        return "boundaries" if "picture" in first.arrays else "curves"

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
    results, budget = [], Budget()
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


def _read(stored: Folder, budget: Budget) -> Result:
    run, experiment = stored.run(), stored.experiment()
    complete = [job for job in jobs(experiment) if stored.stored(job)]
    parts = []
    for part in experiment.parts:
        mine = [job for job in complete if job.part == part]
        if mine:
            parts.append(gather(experiment, part, stored, run.step_ms, mine, budget))
    missing = [job.name for job in jobs(experiment) if job not in complete]
    asked = _asked(experiment, parts)
    return Result(replace(experiment, claims=asked), run, parts, missing)


def _asked(ran: Experiment, parts: list[PartResult]) -> tuple[Claim, ...]:
    """What is asked of the results: the catalogue's claims of today, as far as they are about what was run.

    What is asked is no part of a run: new claims and new words reach results that are there already.

    Args:
        ran: the experiment as it was run.
        parts: its results.

    Returns:
        The claims; those that the results were stored with where none of the catalogue's is about them.
    """
    today = index.find(ran.name)
    methods = {part.name: {method.name for method in part.methods} for part in ran.parts}
    measured = {each.part.name: each.values.keys() for each in parts}

    def about_it(claim: Claim) -> bool:
        part = today.part(claim.part).name
        known = {claim.method, *claim.baselines} <= methods.get(part, set())
        return known and claim.measure in measured.get(part, {claim.measure})

    return tuple(filter(about_it, today.claims)) or ran.claims
