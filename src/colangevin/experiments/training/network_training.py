"""Training of one large network by one method: epochs, on CUDA as replays of graphs, and what is measured."""

import math
import statistics
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import colangevin as cl
from colangevin.constraints import solves
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.problems import ImageProblem, TextProblem
from colangevin.experiments.data.sources import Progress
from colangevin.experiments.judging.scoring import score
from colangevin.experiments.training.image_task import ImageTask
from colangevin.experiments.training.randomness import Draw, seeded
from colangevin.experiments.training.text_task import TextTask
from colangevin.noise import stream
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.optim.param_groups import Rules, choose

__all__ = ["NetworkTraining"]

# Steps of a size that are taken one by one before they are captured: they compile kernels, choose
# convolutions and make the optimizer's state.
_EAGER = 3
# Singular values of a weight that are kept, evenly by rank where there are more.
_SPECTRUM = 64


class Task(Protocol):
    """What a training needs to know of its problem."""

    #: names of what is measured
    curves: tuple[str, ...]
    #: names of the data that are evaluated but not trained on
    held_out: tuple[str, ...]
    #: of every step of an epoch
    sizes: list[int]

    def model(self, method: Method) -> nn.Module:
        """A new network, on the CPU, drawn from torch's generator."""

    def rules(self, method: Method) -> Rules:
        """Constraints by parameter."""

    def learning_rate(self, epoch: int, epochs: int) -> float:
        """What the learning rate is multiplied by in an epoch."""

    def begin(self, epoch: int) -> None:
        """Prepare an epoch."""

    def batch(self, start: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of a step."""

    def pieces(self, part: str) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and targets of data that are held out."""

    def watch(self, model: nn.Module) -> dict[str, float]:
        """What else is to be known of a network, by the name of its curve."""


class NetworkTraining:
    """One run of one method, at some epoch.

    Forward and backward are in bfloat16 on CUDA, where steps are replays of a graph. All that is drawn is a
    function of seed, run and epoch, so a training that is resumed goes on as it would have: bit for bit on
    the CPU. On CUDA sums of some convolutions and of attention come in any order, and differ in rounding.

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
        problem: ImageProblem | TextProblem,
        method: Method,
        run: int,
        *,
        epochs: int,
        seed: int,
        device: torch.device,
        progress: Progress | None = None,
    ) -> None:
        self.method, self.run, self.epochs, self.seed, self.device = method, run, epochs, seed, device
        self.task: Task = (
            ImageTask(problem, run, seed, device, progress)
            if isinstance(problem, ImageProblem)
            else TextTask(problem, device, progress)
        )
        self._clip = problem.clip if isinstance(problem, TextProblem) else 0.0
        self.epoch = 0
        #: whether the loss has left the finite numbers; the network then stays where it was
        self.lost = False
        self._solves = solves.Counts()
        self._fallbacks = 0  # that a loaded state has more than were counted here until then
        with seeded(seed, Draw.WEIGHTS, run):
            self.model = self.task.model(method)
        rules = self.task.rules(method)
        self._penalised: list[nn.Parameter] = []
        groups = self._groups(rules)
        self.model.to(device)
        self.weights = list(self.model.parameters())
        # buffers, whose addresses a captured graph keeps
        self._grads = [torch.zeros_like(weight) for weight in self.weights]
        for weight, grad in zip(self.weights, self._grads, strict=True):
            weight.grad = grad
        self._lr = torch.tensor(method.lr, device=device)
        self.optimizer = _optimizer(method, groups, self._lr, stream(seed, run) >> 1)
        self._share_rate()
        solves.watch(self.optimizer, self._solves)
        self._start = torch.zeros((), dtype=torch.long, device=device)
        self._loss = torch.zeros((), dtype=torch.double, device=device)
        self._right = torch.zeros((), dtype=torch.long, device=device)
        self._count = torch.zeros((), dtype=torch.long, device=device)
        self._eager: dict[int, int] = {}  # steps of each size that were taken one by one
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._seconds: list[float] = []  # of every epoch of this process

    def _groups(self, rules: Rules) -> list[dict[str, Any]]:
        """Parameter groups, with the weights where the method starts."""
        method = self.method
        free = [{"params": list(self.model.named_parameters()), "constraint": cl.Free()}]
        if not rules:
            return free
        if method.penalty:
            held = [group for group in choose(self.model, rules) if group["constraint"] == cl.Orthogonal()]
            self._penalised = [weight for group in held for _, weight in group["params"]]
            return free
        with seeded(self.seed, Draw.WEIGHTS, self.run, 1), _gains_at_their_bound():
            orthogonal = cl.Orthogonal() in rules.values()
            groups = cl.constrain(self.model, rules, init="draw" if orthogonal else "auto")
        return groups if method.constrained else free

    # ---- training --------------------------------------------------------------------------------

    def advance(self) -> None:
        """Train for one epoch."""
        self.epoch += 1
        for total in (self._start, self._loss, self._right, self._count):
            total.zero_()
        if self.lost:
            return
        began = time.perf_counter()
        rate = self.task.learning_rate(self.epoch, self.epochs)
        # the learning rate is h² in the paper's scale
        self._lr.fill_(self.method.lr * (math.sqrt(rate) if self.method.optimizer == "CoLud" else rate))
        self.task.begin(self.epoch)
        self.model.train()
        fastest = torch.backends.cudnn.flags(enabled=True, benchmark=True)
        with seeded(self.seed, Draw.DROPOUT, self.run, self.epoch), fastest:
            try:
                for size in self.task.sizes:
                    self._step(size)
            except cl.NonFiniteError:
                self.lost = True
        # a step in a graph raises nothing, but its loss shows
        self.lost = self.lost or not math.isfinite(float(self._loss))
        self._seconds.append(time.perf_counter() - began)

    def _step(self, size: int) -> None:
        """A step: one by one at first, then from a graph where there are graphs."""
        if size in self._graphs:
            self._graphs[size].replay()
        elif self.device.type == "cuda" and self._eager.get(size, 0) == _EAGER:
            graph = torch.cuda.CUDAGraph()
            # graphs of several sizes take turns, so they can share their memory
            pool = next(iter(self._graphs.values())).pool() if self._graphs else None
            with torch.cuda.graph(graph, pool=pool):
                self._compute(size)
            self._graphs[size] = graph
            graph.replay()
        else:
            self._compute(size)
            self._eager[size] = self._eager.get(size, 0) + 1

    def _compute(self, size: int) -> None:
        """Differentiate the loss of the next batch and move the weights, without waiting for the device."""
        x, y = self.task.batch(self._start, size)
        with _coarse_products():
            loss, right = score(self._logits(x), y)
            grads = torch.autograd.grad(loss + self._penalty(), self.weights)
        torch._foreach_copy_(self._grads, grads)
        if self._clip:
            nn.utils.clip_grad_norm_(self.weights, self._clip)
        self.optimizer.step()
        self._start.add_(size)
        self._loss.add_(loss.detach().double(), alpha=y.numel())
        self._right.add_(right)
        self._count.add_(y.numel())

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
        """Where the network is now, shape (curves, 1, 1); the training loss is that of the epoch's steps."""
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
        return max(cl.diagnostics.violation(self.optimizer).values())

    @torch.no_grad()
    def spectra(self) -> tuple[list[str], NDArray[np.float32]]:
        """Names of all weights that are matrices, and singular values of each, the largest first.

        Returns:
            The names, and an array of shape (1, 1, weights, most) that ends in NaN where one has fewer, and
            is NaN for weights that are not finite.
        """
        named = {
            name: weight.flatten(1) for name, weight in self.model.named_parameters() if weight.dim() > 1
        }
        most = min(_SPECTRUM, max(min(matrix.shape) for matrix in named.values()))
        table = np.full((1, 1, len(named), most), np.nan, np.float32)
        for number, matrix in enumerate(named.values()):
            if bool(matrix.isfinite().all()):
                values = torch.linalg.svdvals(matrix).cpu()
                kept = torch.linspace(0, len(values) - 1, min(most, len(values))).round().long()
                table[0, 0, number, : len(kept)] = values[kept].numpy()
        return list(named), table

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
        self._eager, self._graphs = {}, {}  # the optimizer's state lies elsewhere now

    def _share_rate(self) -> None:
        """Let all groups read one learning rate, so that they move together; a captured graph follows it."""
        for group in self.optimizer.param_groups:
            group["lr"] = self._lr


def _optimizer(method: Method, groups: list[dict[str, Any]], lr: Tensor, seed: int) -> ConstrainedOptimizer:
    """The optimizer of a method."""
    temperature, weight_decay = method.temperature, method.weight_decay
    with _gains_at_their_bound():
        if method.optimizer == "CoLud":
            return cl.CoLud(
                groups,
                lr,
                friction=method.friction,
                temperature=temperature,
                weight_decay=weight_decay,
                seed=seed,
            )
        # without momentum, CoLod
        return cl.ConstrainedSGD(
            groups,
            lr,
            momentum=method.momentum,
            temperature=temperature,
            weight_decay=weight_decay,
            seed=seed,
        )


@contextmanager
def _coarse_products() -> Iterator[None]:
    """Take float32 products on CUDA, the penalty's, in TF32; those of the network are in bfloat16 anyway."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@contextmanager
def _gains_at_their_bound() -> Iterator[None]:
    """Take the paper's norm gains, which start at their bound and cannot leave it, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*start exactly at the bound", category=UserWarning)
        yield
