"""Constraints whose elements move alone: their letters in place, besides the pure form of all others."""

from abc import abstractmethod

from torch import Tensor

from colangevin.constraints.base import Constraint

__all__ = ["Elementwise"]


class Elementwise(Constraint):
    """A constraint on every single element, with a configuration of the weight's shape.

    The methods that end in an underscore do what their pure twins do, but overwrite what they change: a pass
    over memory is all that such a step costs.
    """

    @property
    def uniform(self) -> bool:
        """Whether every element moves in the same way, wherever it stands."""
        return True

    @abstractmethod
    def kick_(self, q: Tensor, p: Tensor, grad: Tensor, b: float) -> None:
        """Letter B on the momentum."""

    @abstractmethod
    def drift_(self, q: Tensor, p: Tensor, a: float) -> None:
        """Letter A on the configuration; the momentum stays as it is."""

    @abstractmethod
    def lower_(self, q: Tensor, weight: Tensor) -> None:
        """Write the weight that a configuration of the same dtype stands for; it may be the same tensor.

        A configuration that drifts have taken out of its range comes back to it.
        """
