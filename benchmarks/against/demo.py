"""The training of ``make demo`` by two versions in turns, and how much their results differ."""

import time
from typing import Any

import torch

from benchmarks.against.version import Ask, serve
from colangevin.experiments.catalogue.index import find
from colangevin.experiments.catalogue.jobs import jobs
from colangevin.experiments.catalogue.parts import Part
from colangevin.experiments.training.points import prepare
from colangevin.experiments.training.stack_training import MEASURED, StackTraining

__all__ = ["compare"]

_NAME = "fig4"
_LOOKS = 6  # at the results, the first after one epoch


class _Training:
    """The demo's one batched model."""

    def __init__(self) -> None:
        experiment = find(_NAME).resized(None, None, quick=True)
        (job,) = jobs(experiment)
        assert isinstance(job.part, Part)
        runs, seed = experiment.runs, experiment.seed
        data = prepare(job.part.problem, runs, seed)
        self.training = StackTraining(job.part, data, runs, seed, torch.device("cpu"))
        self.epochs = experiment.epochs

    def answer(self, question: str) -> Any:
        if question == "epochs":
            return self.epochs
        if question == "measure":
            return self.training.measure().tolist()
        begun = time.perf_counter()
        self.training.advance()
        return time.perf_counter() - begun


def compare(other: Ask, this: Ask, epochs: int | None) -> None:
    """Train and print the time that both versions took, and the largest differences of what is measured.

    Args:
        other: a version.
        this: this one.
        epochs: how many; all of the demo's when None.
    """
    epochs = min(epochs or this("epochs"), this("epochs"))
    looks = {1, *(epochs * k // (_LOOKS - 1) for k in range(1, _LOOKS))}
    spent = [0.0, 0.0]
    print("epoch   other, s   this, s   this/other   largest difference")
    for epoch in range(1, epochs + 1):
        for number, ask in enumerate((other, this)):
            spent[number] += ask("advance")
        if epoch in looks:
            one, two = (torch.tensor(ask("measure"), dtype=torch.float64) for ask in (other, this))
            largest = (one - two).abs().flatten(1).amax(1).tolist()
            found = ", ".join(f"{name} {value:.0e}" for name, value in zip(MEASURED, largest, strict=True))
            ratio = spent[1] / spent[0]
            print(f"{epoch:5d} {spent[0]:10.1f} {spent[1]:9.1f} {ratio:12.3f}   {found}", flush=True)


if __name__ == "__main__":
    serve(_Training().answer)
