"""Training of one large network by one method: epochs, on CUDA as replays of graphs, and what is measured."""

import math
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.constraints import solves
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.problems import (
    ByteProblem,
    ImageProblem,
    NetworkProblem,
    PosteriorProblem,
)
from colangevin.experiments.data.download import Progress
from colangevin.experiments.judging.scoring import score
from colangevin.experiments.training.byte_task import ByteTask
from colangevin.experiments.training.decoder_optimizer import decoder_optimizer
from colangevin.experiments.training.image_task import ImageTask
from colangevin.experiments.training.network_optimizer import (
    build_optimizer,
    groups_at_the_start,
    penalised_weights,
)
from colangevin.experiments.training.optimizer_pair import OptimizerPair, constrained_among
from colangevin.experiments.training.posterior_task import PosteriorTask
from colangevin.experiments.training.randomness import Draw, seeded
from colangevin.experiments.training.step_graphs import StepGraphs
from colangevin.experiments.training.task import Task
from colangevin.experiments.training.text_task import TextTask
from colangevin.noise import stream

__all__ = ["NetworkTraining"]


class NetworkTraining:
    """One run of one method, at some epoch.

    Forward and backward are in bfloat16 on CUDA, where steps are replays of a graph, or the network is
    compiled and the optimizer steps by itself. All that is drawn is a
    function of seed, run and epoch, so a training that is resumed goes on as it would have: bit for bit on
    the CPU. On CUDA some convolutions and attention add up in varying order, so two trainings differ in
    rounding.

    Args:
        problem: data and network.
        method: how to train.
        run: its number; methods of one run start alike and see the same batches.
        epochs: of the whole training, which the learning rate may depend on.
        seed: of the experiment.
        device: where to train.
        progress: told how a download goes.
    """

    def __init__(
        self,
        problem: NetworkProblem,
        method: Method,
        run: int,
        *,
        epochs: int,
        seed: int,
        device: torch.device,
        progress: Progress | None = None,
    ) -> None:
        self.method, self.run, self.epochs, self.seed, self.device = method, run, epochs, seed, device
        self.task = _task(problem, run, seed, device, progress)
        self.epoch = 0
        #: whether the loss has left the finite numbers; the network then stays where it was
        self.lost = False
        self._solves = solves.Counts()
        # polar factors of the whole training that self._solves has not counted: those before a resume
        self._fallbacks = 0
        with seeded(seed, Draw.WEIGHTS, run):
            self.model = self.task.model(method)
        rules = self.task.rules(method)
        self._penalised = penalised_weights(self.model, method, rules)
        with seeded(seed, Draw.WEIGHTS, run, 1):
            groups = groups_at_the_start(self.model, method, rules)
        self.model.to(device)
        self.weights = list(self.model.parameters())
        # buffers, whose addresses a captured graph keeps
        self._grads = [torch.zeros_like(weight) for weight in self.weights]
        for weight, grad in zip(self.weights, self._grads, strict=True):
            weight.grad = grad
        self._lr = torch.tensor(method.lr, device=device)
        self.optimizer: torch.optim.Optimizer | OptimizerPair
        if isinstance(self.task, ByteTask):
            hidden = self.task.hidden(self.model)
            self.optimizer = decoder_optimizer(
                method, groups, hidden, rest_rate=self.task.problem.rest_rate, seed=stream(seed, run) >> 1
            )
        else:
            self.optimizer = build_optimizer(method, groups, self._lr, stream(seed, run) >> 1)
        self._share_rate()
        for each in constrained_among(self.optimizer):
            solves.watch(each, self._solves)
        self._start = torch.zeros((), dtype=torch.long, device=device)
        self._loss = torch.zeros((), dtype=torch.double, device=device)
        self._right = torch.zeros((), dtype=torch.long, device=device)
        self._count = torch.zeros((), dtype=torch.long, device=device)
        self.steps = StepGraphs(device, capture=self.task.captured)
        self._seconds: list[float] = []  # of every epoch of this process

    # ---- training --------------------------------------------------------------------------------

    def advance(self) -> None:
        """Train for one epoch."""
        self.epoch += 1
        for total in (self._start, self._loss, self._right, self._count):
            total.zero_()
        if self.lost:
            return
        began = time.perf_counter()
        self._set_rate(self._rate())
        self.task.begin(self.epoch)
        self.model.train()
        fastest = torch.backends.cudnn.flags(enabled=True, benchmark=True)
        with seeded(self.seed, Draw.DROPOUT, self.run, self.epoch), fastest:
            try:
                for size in self.task.sizes:
                    self.steps.take(self._compute, size)
            except cl.NonFiniteError:
                self.lost = True
        # a step in a graph raises no NonFiniteError; the sum of losses then is not finite
        self.lost = self.lost or not math.isfinite(float(self._loss))
        self._seconds.append(time.perf_counter() - began)

    def _compute(self, size: int) -> None:
        """Differentiate the loss of the next batch and move the weights, without waiting for the device."""
        x, y = self.task.batch(self._start, size)
        with _coarse_products():
            loss, right = score(self._logits(x), y)
            grads = torch.autograd.grad(loss + self._penalty(), self.weights)
        torch._foreach_copy_(self._grads, grads)
        if self.task.clip:
            nn.utils.clip_grad_norm_(self.weights, self.task.clip)
        self.optimizer.step()
        self._start.add_(size)
        self._loss.add_(loss.detach().double(), alpha=y.numel())
        self._right.add_(right)
        self._count.add_(y.numel())

    def _rate(self) -> float:
        """What the learning rate is multiplied by in this epoch."""
        return self.task.learning_rate(self.epoch, self.epochs)

    def _logits(self, x: Tensor) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            logits: Tensor = self.model(x)
            return logits

    def _penalty(self) -> Tensor | float:
        """λ Σ ‖WᵀW − I‖², with W flattened to (outputs, rest) and transposed where it is wide."""
        total: Tensor | float = 0.0
        for weight in self._penalised:
            W = weight.flatten(1)
            gram = W.mT @ W if W.shape[0] >= W.shape[1] else W @ W.mT
            total = total + (gram - torch.eye(len(gram), device=W.device)).square().sum()
        return self.method.penalty * total

    @property
    def fallbacks(self) -> int:
        """How many projections of the whole training took the polar factor."""
        return self._fallbacks + self._solves.of("Orthogonal").fallbacks

    @property
    def step_ms(self) -> float | None:
        """Median time of a step in this process, over epochs after the first, which compiles."""
        later = self._seconds[1:]
        return 1000 * statistics.median(later) / len(self.task.sizes) if later else None

    # ---- measuring -------------------------------------------------------------------------------

    def measure(self) -> Tensor:
        """All curves at this epoch, shape (curves, 1, 1). The training loss is the mean over its steps."""
        count = max(1, int(self._count))
        values = {
            "train_loss": float(self._loss) / count,
            "train_accuracy": int(self._right) / count,
            "violation": self.violation(),
            "fallbacks": self.fallbacks,
            **self.task.watch(self.model),
        }
        for part in self.task.held_out:
            values[f"{part}_loss"], values[f"{part}_accuracy"] = self._evaluate(part)
            values[f"{part}_bits"] = values[f"{part}_loss"] / math.log(2)
        if self.lost:
            values = dict.fromkeys(values, math.nan)
        return torch.tensor([values[name] for name in self.task.curves], dtype=torch.double).view(-1, 1, 1)

    @torch.no_grad()
    def _evaluate(self, part: str) -> tuple[float, float]:
        """Mean loss and accuracy on data that are held out."""
        self.model.eval()
        loss = torch.zeros((), dtype=torch.double, device=self.device)
        right = torch.zeros((), dtype=torch.long, device=self.device)
        count = 0
        for x, y in self.task.pieces(part):
            mean, hits = score(self._logits(x), y)
            loss += mean.double() * y.numel()
            right += hits
            count += y.numel()
        return float(loss) / count, int(right) / count

    def violation(self) -> float:
        """Largest violation of a constraint; 0 without any."""
        found = [cl.diagnostics.violation(each) for each in constrained_among(self.optimizer)]
        return max((value for each in found for value in each.values()), default=0.0)

    # ---- checkpoints -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything a resumed training needs."""
        return {
            "epoch": self.epoch,
            "lost": self.lost,
            "fallbacks": self.fallbacks,
            "model": {name: value.cpu() for name, value in self.model.state_dict().items()},
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to where :meth:`state_dict` was called."""
        self.epoch, self.lost = state["epoch"], state["lost"]
        self._fallbacks += state["fallbacks"] - self.fallbacks
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._share_rate()
        # the loaded state lies elsewhere in memory than the graphs read it
        self.steps = StepGraphs(self.device, capture=self.task.captured)

    # ---- the learning rate -----------------------------------------------------------------------

    def _share_rate(self) -> None:
        """Let all groups of a step in a graph read one learning rate: they move together, and it follows."""
        if self.task.captured:
            for group in self.optimizer.param_groups:
                group["lr"] = self._lr

    def _set_rate(self, rate: float) -> None:
        """Multiply the method's learning rates by a number."""
        if self.task.captured:
            # CoLud's lr is h, and the learning rate that the schedule changes is h²
            self._lr.fill_(self.method.lr * (math.sqrt(rate) if self.method.optimizer == "CoLud" else rate))
            return
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["initial_lr"]


def _task(
    problem: NetworkProblem,
    run: int,
    seed: int,
    device: torch.device,
    progress: Progress | None,
) -> Task:
    """A problem on a device."""
    if isinstance(problem, ByteProblem):
        return ByteTask(problem, run, seed, device)
    if isinstance(problem, ImageProblem):
        return ImageTask(problem, run, seed, device, progress)
    if isinstance(problem, PosteriorProblem):
        return PosteriorTask(problem, run, seed, device, progress)
    return TextTask(problem, device, progress)


@contextmanager
def _coarse_products() -> Iterator[None]:
    """Take float32 products on CUDA, the penalty's, in TF32; those of the network are in bfloat16 anyway."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
