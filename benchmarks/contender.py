"""What takes part in a benchmark: a name, and how to set up a run of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Optimizer

__all__ = ["LR", "MOMENTUM", "Contender", "Gradients", "Run", "matrices", "optimizer_run", "orthogonality"]

LR, MOMENTUM = 0.1, 0.9
_ALIGNMENT = 64  # floats: every gradient starts on a cache line, as a tensor of its own would


class Gradients:
    """The gradients of a run as views of one buffer, so that fresh ones are one call.

    Args:
        weights: the parameters; their ``.grad`` is set.
        size: standard deviation of an entry.
    """

    def __init__(self, weights: Sequence[Tensor], size: float) -> None:
        self.weights, self.size = list(weights), size
        room = [-(-weight.numel() // _ALIGNMENT) * _ALIGNMENT for weight in self.weights]
        self.buffer = torch.empty(sum(room), device=self.weights[0].device)
        self.views = [
            # which lies as the weight does, if that is dense
            part.as_strided(weight.shape, torch.empty_like(weight, device="meta").stride())
            for part, weight in zip(self.buffer.split(room), self.weights, strict=True)
        ]
        self.refill()

    def refill(self) -> None:
        """Fresh normal gradients. A constant one would let momentum grow beyond anything seen in training."""
        self.buffer.normal_(std=self.size)

    def attach(self) -> None:
        """Set the gradients as the ``.grad`` of the weights."""
        for weight, grad in zip(self.weights, self.views, strict=True):
            weight.grad = grad


@dataclass
class Run:
    """A contender at work on some weights."""

    weights: list[Tensor]
    refill: Callable[[], None]
    step: Callable[[], object]
    #: what the method keeps between steps, besides weights and gradients
    state: Callable[[], Iterator[Tensor]]
    #: how far the weights are from the constraint; None for a method without one
    error: Callable[[], float] | None


@dataclass(frozen=True)
class Contender:
    """A method of a library.

    Attributes:
        method: its name in the results.
        library: the distribution it comes from.
        build: from starting weights and the size of a gradient's entries to a run; imports its library.
        words: float32 words a weight that a step moves at least; None where that says nothing.
        also: variants that are not for everyone: "graph" where a step can be captured.
    """

    method: str
    library: str
    build: Callable[[list[Tensor], float], Run]
    words: int | None
    also: tuple[str, ...] = ()


def optimizer_run(
    optimizer: Optimizer, weights: list[Tensor], size: float, error: Callable[[], float] | None = None
) -> Run:
    """A run of an optimizer that reads ``.grad`` and writes the weights.

    Args:
        optimizer: of the weights.
        weights: the parameters.
        size: of a gradient's entries.
        error: of the weights.

    Returns:
        The run.
    """
    gradients = Gradients(weights, size)
    gradients.attach()

    def state() -> Iterator[Tensor]:
        for entry in optimizer.state.values():
            yield from (value for value in entry.values() if isinstance(value, Tensor))

    return Run(weights, gradients.refill, optimizer.step, state, error)


def matrices(weights: Sequence[Tensor], *, tall: bool) -> list[Tensor]:
    """Copies of weights flattened to (outputs, rest), transposed where needed to be tall or to be wide."""
    flat = [weight.detach().flatten(1) for weight in weights]
    turn = [(each.shape[0] < each.shape[1]) == tall for each in flat]
    turned = (each.mT if wrong else each for each, wrong in zip(flat, turn, strict=True))
    return [each.clone(memory_format=torch.contiguous_format) for each in turned]


@torch.no_grad()
def orthogonality(weights: Sequence[Tensor]) -> float:
    """Largest entry of abs(Q^T Q - I) over all weights, in float64; NaN if there is one."""
    worst = []
    for weight in weights:
        flat = weight.detach().flatten(1).double()
        gram = flat @ flat.mT if flat.shape[0] <= flat.shape[1] else flat.mT @ flat
        gram.diagonal().sub_(1)
        worst.append(gram.abs().max())
    return float(torch.stack(worst).max())
