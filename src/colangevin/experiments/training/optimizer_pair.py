"""Two optimizers that step together, each its own weights of one network."""

from typing import Any

from torch.optim import Optimizer

from colangevin.optim.base import ConstrainedOptimizer

__all__ = ["OptimizerPair", "constrained_among"]


class OptimizerPair:
    """What a training needs of an optimizer, of two.

    Args:
        first: one of them.
        second: the other.
    """

    def __init__(self, first: Optimizer, second: Optimizer) -> None:
        self.both = (first, second)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of both."""
        return [group for each in self.both for group in each.param_groups]

    def step(self) -> None:
        """A step of both."""
        for each in self.both:
            each.step()

    def state_dict(self) -> dict[str, Any]:
        """The states of both."""
        return {"both": [each.state_dict() for each in self.both]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to where :meth:`state_dict` was called."""
        for each, saved in zip(self.both, state["both"], strict=True):
            each.load_state_dict(saved)


def constrained_among(optimizer: Optimizer | OptimizerPair) -> list[ConstrainedOptimizer]:
    """Those of this library, which can hold weights on constraints."""
    each = optimizer.both if isinstance(optimizer, OptimizerPair) else (optimizer,)
    return [one for one in each if isinstance(one, ConstrainedOptimizer)]
