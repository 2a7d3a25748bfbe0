"""Text for a transformer: pieces that are read side by side, and its constraints."""

from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.problems import TextProblem
from colangevin.experiments.data import corpora
from colangevin.experiments.data.download import Progress
from colangevin.experiments.models.transformer import Transformer
from colangevin.optim.param_groups import Rules

__all__ = ["TextTask"]

# Windows of text evaluated at a time.
_MANY = {"cpu": 32, "cuda": 512}


class TextTask:
    """A text problem on a device.

    The training text is cut into ``batch`` pieces of one length; words that fill no piece are left out. A
    step reads the next ``length`` words of all pieces. Validation and test text are read in windows of that
    length.

    Args:
        problem: which text, how it is read.
        device: where everything is.
        progress: told how a download goes.
    """

    held_out: tuple[str, ...] = ("validation", "test")
    captured = True
    curves: tuple[str, ...] = (
        *("train_loss", "train_accuracy", "validation_loss", "validation_accuracy", "test_loss"),
        *("test_accuracy", "violation", "norm_gain_change"),
    )

    def __init__(self, problem: TextProblem, device: torch.device, progress: Progress | None = None) -> None:
        self.problem, self.clip = problem, problem.clip
        text = _load(problem.data, progress)
        self.words = text.words
        share = None if problem.words is None else problem.words // 10
        self._held_out = {
            part: _windows(words[:share].to(device), problem.length)
            for part, words in (("validation", text.valid), ("test", text.test))
        }
        train = text.train[: problem.words]
        rows = len(train) // problem.batch
        # pieces as columns: a step is a block of rows
        self._columns = train[: rows * problem.batch].view(problem.batch, rows).t().contiguous().to(device)
        #: words in a row of every step of an epoch; the first word of a piece is not predicted
        self.sizes = [min(problem.length, rows - 1 - start) for start in range(0, rows - 1, problem.length)]

    def model(self, method: Method) -> nn.Module:
        """A new network, on the CPU."""
        problem = self.problem
        return Transformer(
            self.words,
            width=problem.width,
            hidden=problem.width,
            dropout=problem.dropout,
            scale=problem.scale,
        )

    def rules(self, method: Method) -> Rules:
        """The bounds on the entries of each kind of weight."""
        if method.radii is None:
            return {}
        kinds = (
            "embedding.weight",
            "output.weight",
            "layers.*.linear?.weight",
            "layers.*.norm?.weight",
            "layers.*.attention.*.weight",
        )
        return {kind: cl.Circle(radius) for kind, radius in zip(kinds, method.radii, strict=True)}

    def learning_rate(self, epoch: int, epochs: int) -> float:
        """What the learning rate is multiplied by in an epoch."""
        return self.problem.decay ** (epoch - 1)

    def begin(self, epoch: int) -> None:
        """Every epoch reads the text from its beginning."""

    def batch(self, start: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Words from row ``start`` on, a tensor that a graph can move, and those that follow each."""
        rows = self._columns[start + torch.arange(size + 1, device=start.device)].t()
        return rows[:, :-1], rows[:, 1:]

    def pieces(self, part: str) -> Iterator[tuple[Tensor, Tensor]]:
        """Windows of a text that is held out, with the words that follow; some at a time."""
        for windows in self._held_out[part]:
            yield from zip(*(each.split(_MANY[each.device.type]) for each in windows), strict=True)

    def watch(self, model: nn.Module) -> dict[str, float]:
        """How far the gain of a layer norm has come from 1, where all of them start."""
        norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
        return {"norm_gain_change": max(float((norm.weight.detach() - 1).abs().max()) for norm in norms)}


@lru_cache(maxsize=1)
def _load(name: str, progress: Progress | None) -> corpora.Text:
    """The corpus, kept for the next run."""
    return corpora.load(name, progress)


def _windows(words: Tensor, length: int) -> list[tuple[Tensor, Tensor]]:
    """Words in rows of one length, and those that follow each; the rest of the text as a row of its own."""
    whole = (len(words) - 1) // length * length
    rows = words[:whole].view(-1, length), words[1 : whole + 1].view(-1, length)
    rest = words[whole:-1].unsqueeze(0), words[whole + 1 :].unsqueeze(0)
    return [each for each in (rows, rest) if each[0].numel()]
