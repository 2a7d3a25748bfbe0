"""Bytes for a decoder: pieces of text from places that are drawn, and what holds its hidden matrices."""

import math
from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.problems import ByteProblem
from colangevin.experiments.data import plain_text
from colangevin.experiments.data.sources import DataError
from colangevin.experiments.models.decoder import Decoder
from colangevin.experiments.training.randomness import Draw, generator
from colangevin.optim.param_groups import Rules

__all__ = ["ByteTask"]

# The share of a training over which the learning rate rises.
_WARM_UP = 0.05


class ByteTask:
    """A text on a device, as one run sees it.

    What is held out is cut in two halves, for validation and test; of each the first bytes are read, in
    windows of the length that is trained on.

    Args:
        problem: which text, how it is read.
        run: its number; all methods of a run see the same pieces.
        seed: of the experiment.
        device: where everything is.

    Raises:
        DataError: when there is no text, or too little.
    """

    held_out: tuple[str, ...] = ("validation", "test")
    clip = 0.0
    captured = False
    curves: tuple[str, ...] = (
        *("train_loss", "train_accuracy", "validation_loss", "validation_accuracy", "validation_bits"),
        *("test_loss", "test_accuracy", "test_bits", "hidden_norm", "violation", "fallbacks"),
    )

    def __init__(self, problem: ByteProblem, run: int, seed: int, device: torch.device) -> None:
        self.problem, self.run, self.seed = problem, run, seed
        self._text, held_out = _load(problem.data, device)
        half = len(held_out) // 2
        if min(len(self._text), half) <= problem.length:
            raise DataError(
                f"The text {problem.data!r} has {len(self._text):,} bytes to train on and {len(held_out):,} "
                f"held out; it must have more than {problem.length:,} and {2 * problem.length + 1:,}. "
                "Put more text there."
            )
        self._parts = {"validation": held_out[:half], "test": held_out[half:]}
        #: pieces of every step of an epoch
        self.sizes = [problem.batch] * problem.steps
        self._places = torch.zeros(problem.batch * problem.steps, dtype=torch.long, device=device)
        self._along = torch.arange(problem.length + 1, device=device)

    def model(self, method: Method) -> nn.Module:
        """A new network, on the CPU; on CUDA its layers will be compiled."""
        problem = self.problem
        made = Decoder(problem.width, problem.layers, problem.heads, problem.length)
        if self._text.is_cuda:
            # alike: one graph serves all layers of all networks of a process
            for layer in made.layers:
                layer.compile(dynamic=False)
        return made

    def hidden(self, model: nn.Module) -> list[str]:
        """Names of the weights that the method moves; the others are under Adam."""
        assert isinstance(model, Decoder)
        return model.matrices

    def rules(self, method: Method) -> Rules:
        """What holds the hidden matrices."""
        held: dict[str, cl.Constraint | None] = {
            "free": None,
            "row spheres": cl.Sphere(),
            "Frobenius spheres": cl.Sphere(over="matrix"),
            "orthogonal": cl.Orthogonal(),
        }
        return {"output.weight": None, nn.Linear: held[method.hidden]}

    def learning_rate(self, epoch: int, epochs: int) -> float:
        """A rise and a longer fall, both straight, at the middle of an epoch."""
        warm = max(1.0, _WARM_UP * epochs)
        return min((epoch - 0.5) / warm, (epochs - epoch + 0.5) / max(0.5, epochs - warm))

    def begin(self, epoch: int) -> None:
        """Draw the places of an epoch."""
        source = generator(self.seed, Draw.BATCHES, self.run, epoch)
        last = len(self._text) - len(self._along)
        self._places.copy_(torch.randint(last + 1, self._places.shape, generator=source))

    def batch(self, start: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Pieces from the epoch's place ``start`` on, and the bytes that follow each of theirs."""
        places = self._places[start + torch.arange(size, device=start.device)]
        rows = self._text[places.unsqueeze(1) + self._along].long()
        return rows[:, :-1], rows[:, 1:]

    def pieces(self, part: str) -> Iterator[tuple[Tensor, Tensor]]:
        """Windows of a text that is held out, with the bytes that follow; as many at a time as in a step."""
        text, length = self._parts[part], self.problem.length
        count = min(self.problem.held_out, len(text) - 1) // length
        x, y = (text[shift : shift + count * length].view(count, length) for shift in (0, 1))
        for rows in zip(x.split(self.problem.batch), y.split(self.problem.batch), strict=True):
            yield rows[0].long(), rows[1].long()

    def watch(self, model: nn.Module) -> dict[str, float]:
        """The size of hidden weights: constraints keep it, the others let it grow."""
        weights = dict(model.named_parameters())
        rows = torch.cat([weights[name].detach().square().sum(1) for name in self.hidden(model)])
        return {"hidden_norm": math.sqrt(float(rows.mean()))}


@lru_cache(maxsize=1)
def _load(name: str, device: torch.device) -> tuple[Tensor, Tensor]:
    """The text, kept for the next run."""
    train, held_out = plain_text.load(name)
    return train.to(device), held_out.to(device)
