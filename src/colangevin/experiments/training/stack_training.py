"""Training of one part of an experiment: epochs, on CUDA as replays of a graph, and what is measured."""

from typing import Any

import torch
from torch import Tensor

from colangevin.experiments.catalogue.parts import Part
from colangevin.experiments.training.points import Data
from colangevin.experiments.training.randomness import Draw, generator
from colangevin.experiments.training.stack import Stack

__all__ = ["MEASURED", "StackTraining"]

#: what is measured along a training
MEASURED = (
    "train_loss",
    "train_accuracy",
    "test_loss",
    "test_accuracy",
    "largest_first_weight",
    "largest_output_weight",
)


class StackTraining:
    """All runs of all methods of a part, at some epoch.

    Args:
        part: what to train.
        data: training and test sets.
        runs: of each method.
        seed: of the experiment.
        device: where to train.
    """

    def __init__(self, part: Part, data: Data, runs: int, seed: int, device: torch.device) -> None:
        self.problem = part.problem
        self.seed = seed
        self.epoch = 0
        self.data = data.to(device)
        self.stack = Stack(
            part.problem,
            part.methods,
            runs,
            inputs=data.x.shape[-1],
            classes=data.classes,
            seed=seed,
            device=device,
        )
        self._order = torch.zeros(runs, self.problem.train, dtype=torch.long, device=device)
        sets = self.data.x.shape[0]
        self._set = torch.arange(runs, device=device).remainder(sets).unsqueeze(1)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._eager = False  # whether this process has run an epoch without a graph

    def advance(self) -> None:
        """Train for one epoch, without waiting for the device."""
        self.epoch += 1
        source = generator(self.seed, Draw.BATCHES, self.epoch)
        numbers = torch.rand(self._order.shape, generator=source)
        if self._order.is_cuda:
            numbers = numbers.pin_memory().to(self._order.device, non_blocking=True)
        self._order.copy_(numbers.argsort(dim=1, stable=True))
        if self._order.is_cuda and self._eager and self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._steps()
        if self._graph is None:
            # On CUDA the first epoch is never captured: it compiles kernels and makes the optimizers' state.
            self._steps()
            self._eager = True
        else:
            self._graph.replay()

    def _steps(self) -> None:
        """The steps of an epoch."""
        for rows in self._order.split(self.problem.batch, dim=1)[: self.problem.steps_of_an_epoch]:
            self.stack.differentiate(self.data.x[self._set, rows], self.data.y[self._set, rows])
            self.stack.step()

    def measure(self) -> Tensor:
        """All curves at this epoch in the order of :data:`MEASURED`, shape (curves, methods, runs)."""
        values = (
            *self.stack.evaluate(self.data.x, self.data.y),
            *self.stack.evaluate(self.data.x_test, self.data.y_test),
            *self.stack.largest_weights().double(),
        )
        return torch.stack(values).cpu()

    def state_dict(self) -> dict[str, Any]:
        """Everything a resumed training needs."""
        return {"epoch": self.epoch, "stack": self.stack.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to where :meth:`state_dict` was called."""
        self.epoch = state["epoch"]
        self.stack.load_state_dict(state["stack"])
        # the loaded state lies elsewhere in memory than a captured graph reads it
        self._graph, self._eager = None, False
