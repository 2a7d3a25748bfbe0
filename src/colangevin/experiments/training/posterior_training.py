"""Sampling of the posterior of one network: SGD first, then a sampler whose predictions are averaged."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import colangevin as cl
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.problems import PosteriorProblem
from colangevin.experiments.data.download import Progress
from colangevin.experiments.judging.chains import TRACES, distance
from colangevin.experiments.training.network_optimizer import build_optimizer, groups_at_the_start
from colangevin.experiments.training.network_training import NetworkTraining
from colangevin.experiments.training.posterior_task import PosteriorTask
from colangevin.experiments.training.step_graphs import StepGraphs
from colangevin.experiments.training.traces import traced
from colangevin.noise import stream
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.schedules import Cyclical

__all__ = ["PosteriorTraining", "at_the_posterior"]

# A shorter cycle has no epoch left to sample after those that explore.
_SHORTEST_CYCLE = 3
_FIRST = "stem.conv.weight"


def at_the_posterior(method: Method, data: int) -> Method:
    """A method with the temperature and the weight decay that sample the posterior of a mean loss.

    Args:
        method: with a prior, and a temperature at which 1 is the Bayes posterior.
        data: how many there are to train on.

    Returns:
        The method in units of the loss.
    """
    return replace(
        method,
        temperature=cl.posterior_temperature(data, method.temperature),
        weight_decay=cl.prior_weight_decay(data, math.sqrt(method.prior_variance)),
    )


class PosteriorTraining(NetworkTraining):
    """One run of one method, at some epoch. At temperature 0 it is SGD alone, and nothing is averaged.

    A sampler begins where SGD ends after a few epochs, and these count as epochs of its own. After every
    epoch past the burn-in the network is a sample, of a cyclical method only where the schedule says so.
    Forward and backward are in float32, on CUDA with products in TF32.

    Args:
        problem: data and network.
        method: how to train.
        run: its number; methods of one run start alike and see the same batches.
        epochs: of the whole training.
        seed: of the experiment.
        device: where to train.
        progress: told how a download goes.
    """

    task: PosteriorTask
    optimizer: ConstrainedOptimizer

    def __init__(
        self,
        problem: PosteriorProblem,
        method: Method,
        run: int,
        *,
        epochs: int,
        seed: int,
        device: torch.device,
        progress: Progress | None = None,
    ) -> None:
        self._problem = problem
        self._sampler = at_the_posterior(method, problem.train)
        self._samples_at_all = method.temperature > 0
        self._start_epochs = problem.start_epochs(epochs) if self._samples_at_all else epochs
        first = self._sampler
        if self._samples_at_all:
            first = replace(
                first,
                optimizer="ConstrainedSGD",
                lr=problem.start_rate,
                momentum=problem.start_momentum,
                temperature=0.0,
            )
        super().__init__(problem, first, run, epochs=epochs, seed=seed, device=device, progress=progress)
        self._schedule: Cyclical | None = None
        shape = self.task.reference.shape
        self._sum = torch.zeros(shape, dtype=torch.double, device=device)
        #: how many samples have been averaged
        self.samples = 0
        # kinetic over asked for, after every epoch since the last measurement
        self._temperatures: list[float] = []
        self._traces: dict[str, list[Tensor]] = {name: [] for name in TRACES}

    # ---- training --------------------------------------------------------------------------------

    def advance(self) -> None:
        """Train for one epoch; a sampler's network may then be a sample."""
        if self.epoch == self._start_epochs:
            self._begin_sampling()
        super().advance()
        if self.lost or self.epoch <= self._start_epochs:
            return
        if self._schedule is None or self._schedule.sampling:
            kinetic = cl.diagnostics.kinetic_temperature(self.optimizer).get(_FIRST, math.nan)
            self._temperatures.append(kinetic / self._sampler.temperature)
            if self._problem.burnt_in(self.epoch, self.epochs):
                self._sum += self._now()
                self.samples += 1
        if self._schedule is not None:
            before = self._temperature
            self._schedule.step()
            if self._temperature != before:
                # a captured graph has the temperature in it
                self.steps = StepGraphs(self.device)

    def _begin_sampling(self) -> None:
        """Give the weights, where they are, to the sampler."""
        self.method = self._sampler
        groups = groups_at_the_start(self.model, self.method, self.task.rules(self.method))
        made = build_optimizer(self.method, groups, self._lr, stream(self.seed, self.run) >> 1)
        self.optimizer = made
        self._share_rate()
        if self.method.cycles:
            self._schedule = Cyclical(made, self._cycle)
        self.steps = StepGraphs(self.device)

    @property
    def _cycle(self) -> int:
        """Epochs of a cycle."""
        return max(_SHORTEST_CYCLE, (self.epochs - self._start_epochs) // self.method.cycles)

    @property
    def _temperature(self) -> float:
        return float(self.optimizer.param_groups[0]["temperature"])

    def _rate(self) -> float:
        """SGD's falls to 0, a cyclical sampler's in every cycle; that of other samplers is constant."""
        if self.epoch <= self._start_epochs:
            return self.task.learning_rate(self.epoch, self._start_epochs)
        if self._schedule is None:
            return 1.0
        return self.task.learning_rate(self._schedule.last_step % self._cycle + 1, self._cycle)

    def _logits(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        return logits

    # ---- measuring -------------------------------------------------------------------------------

    @torch.no_grad()
    def _now(self) -> Tensor:
        """What the network predicts as it is, of shape (images, classes)."""
        return torch.cat([self._logits(x).double().softmax(-1) for x, _ in self.task.pieces("test")])

    def predictions(self) -> Tensor:
        """The mean over samples; without any yet, what the network predicts as it is. NaN of a lost one."""
        if self.lost:
            return torch.full_like(self._sum, math.nan)
        return self._sum / self.samples if self.samples else self._now()

    def measure(self) -> Tensor:
        """All curves at this epoch, shape (curves, 1, 1). Those of test images are of :meth:`predictions`."""
        if self.lost:
            values = dict.fromkeys(self.task.curves, math.nan)
        else:
            predicted, count = self.predictions().cpu(), max(1, int(self._count))
            judged = distance(predicted, self.task.reference, self.task.y_test)
            since, self._temperatures = self._temperatures, []
            values = {
                "train_loss": float(self._loss) / count,
                "train_accuracy": int(self._right) / count,
                "test_loss": judged.loss,
                "test_accuracy": judged.accuracy,
                "agreement": judged.agreement,
                "total_variation": judged.total_variation,
                "calibration_error": judged.calibration_error,
                "first_temperature": sum(since) / len(since) if since else math.nan,
                "violation": self.violation(),
                **self.task.watch(self.model),
            }
        for name, numbers in traced(self.model, self._now(), self.task.y_test).items():
            self._traces[name].append(numbers)
        return torch.tensor([values[name] for name in self.task.curves], dtype=torch.double).view(-1, 1, 1)

    def traces(self) -> dict[str, Tensor]:
        """Numbers for R-hat at every measurement so far, each of shape (points, numbers)."""
        return {name: torch.stack(numbers) for name, numbers in self._traces.items()}

    # ---- checkpoints -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything a resumed training needs."""
        return {
            **super().state_dict(),
            "sum": self._sum.cpu(),
            "samples": self.samples,
            "temperatures": list(self._temperatures),
            "traces": {name: list(numbers) for name, numbers in self._traces.items()},
            "schedule": None if self._schedule is None else self._schedule.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to where :meth:`state_dict` was called."""
        if state["epoch"] > self._start_epochs:
            self._begin_sampling()
        super().load_state_dict(state)
        self._sum.copy_(state["sum"])
        self.samples, self._temperatures = state["samples"], list(state["temperatures"])
        self._traces = {name: list(numbers) for name, numbers in state["traces"].items()}
        if self._schedule is not None:
            self._schedule.load_state_dict(state["schedule"])
