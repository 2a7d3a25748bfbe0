"""The data of an experiment, one set for each run or one for all."""

from dataclasses import dataclass

import torch
from torch import Tensor

from colangevin.experiments.catalogue.problems import Problem
from colangevin.experiments.data import fashion_mnist
from colangevin.experiments.data.download import Progress
from colangevin.experiments.data.spirals import four_turn_spiral, two_turn_spiral
from colangevin.experiments.training.randomness import Draw, generator

__all__ = ["Data", "prepare"]

_SPIRALS = {"two-turn": two_turn_spiral, "four-turn": four_turn_spiral}


@dataclass(frozen=True)
class Data:
    """Training and test sets: x of shape (sets, points, features), y of shape (sets, points).

    Labels are 0.0 or 1.0 for two classes and whole numbers for more. ``sets`` is the number of runs, or 1
    when they all share one.
    """

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor

    @property
    def classes(self) -> int:
        """How many there are."""
        return 2 if self.y.is_floating_point() else int(self.y.max()) + 1

    def to(self, device: torch.device) -> "Data":
        """The data on a device."""
        return Data(*(part.to(device) for part in (self.x, self.y, self.x_test, self.y_test)))


def prepare(problem: Problem, runs: int, seed: int, progress: Progress | None = None) -> Data:
    """Draw or load the data of a problem.

    Args:
        problem: which data and how much.
        runs: how many sets, unless the runs share one.
        seed: of the experiment.
        progress: told how a download goes.

    Returns:
        The data, on the CPU.
    """
    count = 1 if problem.one_data_set else runs
    sets = [_one_set(problem, seed, run, progress) for run in range(count)]
    x, y, x_test, y_test = (torch.stack(parts) for parts in zip(*sets, strict=True))
    return Data(x, y, x_test, y_test)


def _one_set(
    problem: Problem, seed: int, run: int, progress: Progress | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if problem.data == "fashion-mnist":
        source = generator(seed, Draw.SPLIT, run)
        x, y, x_test, y_test = fashion_mnist.split(
            problem.train, problem.test, problem.split, source, progress
        )
        return (2 * x - 1, y, 2 * x_test - 1, y_test) if problem.centred else (x, y, x_test, y_test)
    source, spiral = generator(seed, Draw.DATA, run), _SPIRALS[problem.data]
    return *spiral(problem.train, generator=source), *spiral(problem.test, generator=source)
