"""What the training of one network needs to know of its problem."""

from collections.abc import Iterator
from typing import Protocol

from torch import Tensor, nn

from colangevin.experiments.catalogue.method import Method
from colangevin.optim.param_groups import Rules

__all__ = ["Task"]


class Task(Protocol):
    """Data on a device, in batches, with the network and the constraints that go with them."""

    #: names of what is measured
    curves: tuple[str, ...]
    #: names of the data that are evaluated but not trained on
    held_out: tuple[str, ...]
    #: of every step of an epoch
    sizes: list[int]
    #: largest norm of the gradient; 0 for any
    clip: float
    #: whether all of a step is captured in a CUDA graph; otherwise the network is compiled, and the optimizer
    #: takes its step by itself
    captured: bool

    def model(self, method: Method) -> nn.Module:
        """A new network, on the CPU, drawn from torch's generator."""

    def rules(self, method: Method) -> Rules:
        """Constraints by parameter."""

    def learning_rate(self, epoch: int, epochs: int) -> float:
        """What the learning rate is multiplied by in an epoch."""

    def begin(self, epoch: int) -> None:
        """Prepare an epoch."""

    def batch(self, start: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of a step. ``start`` is a tensor, so that a captured graph can move it."""

    def pieces(self, part: str) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and targets of data that are held out, some at a time."""

    def watch(self, model: nn.Module) -> dict[str, float]:
        """What else is to be known of a network, by the name of its curve."""
