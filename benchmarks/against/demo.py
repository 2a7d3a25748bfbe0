"""The training of ``make demo`` by two versions in turns, and how much their results differ."""

import time
from statistics import median
from typing import Any

import torch

from benchmarks.against.version import Ask, serve
from colangevin.experiments.catalogue.index import find
from colangevin.experiments.catalogue.parts import Part
from colangevin.experiments.training.points import prepare
from colangevin.experiments.training.stack_training import MEASURED, StackTraining

__all__ = ["compare"]

_NAME = "fig4"
_LOOKS = 6  # at the results, the first after one epoch


class _Training:
    """The demo's one batched model."""

    training: StackTraining

    def answer(self, question: str, *about: Any) -> Any:
        if question == "begin":
            return self._begin(*about)
        if question == "measure":
            return self.training.measure().tolist()
        begun = time.perf_counter()
        self.training.advance()
        return time.perf_counter() - begun

    def _begin(self, name: str, runs: int) -> None:
        experiment = find(_NAME)
        part = next(part for part in experiment.parts if part.name == name)
        assert isinstance(part, Part)
        data = prepare(part.problem, runs, experiment.seed)
        self.training = StackTraining(part, data, runs, experiment.seed, torch.device("cpu"))


def compare(other: Ask, this: Ask, epochs: int | None) -> None:
    """Train and print the time that both versions took, and the largest differences of what is measured.

    Args:
        other: a version.
        this: this one.
        epochs: how many; all of the demo's when None.
    """
    # in the form that it has in this version; that of the other may be another network
    experiment = find(_NAME).resized(None, None, quick=True)
    (part,) = experiment.parts
    for ask in (other, this):
        ask("begin", part.name, experiment.runs)
    epochs = min(epochs or experiment.epochs, experiment.epochs)
    looks = {1, *(epochs * k // (_LOOKS - 1) for k in range(1, _LOOKS))}
    spent: tuple[list[float], list[float]] = ([], [])
    print("epoch   other, s   this, s   this/other   largest difference")
    for epoch in range(1, epochs + 1):
        for number, ask in enumerate((other, this)):
            spent[number].append(ask("advance"))
        if epoch in looks:
            one, two = (torch.tensor(ask("measure"), dtype=torch.float64) for ask in (other, this))
            largest = (one - two).abs().flatten(1).amax(1).tolist()
            found = ", ".join(f"{name} {value:.0e}" for name, value in zip(MEASURED, largest, strict=True))
            before, now = map(sum, spent)
            print(f"{epoch:5d} {before:10.1f} {now:9.1f} {now / before:12.3f}   {found}", flush=True)
    before, now = map(median, spent)
    print(f"median epoch: {1e3 * before:.0f} ms, {1e3 * now:.0f} ms, {now / before:.3f}")


if __name__ == "__main__":
    serve(_Training().answer)
