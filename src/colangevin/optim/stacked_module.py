"""Modules that are many models at once."""

from abc import ABC, abstractmethod

from torch import nn

__all__ = ["StackedModule"]


class StackedModule(nn.Module, ABC):
    """A module each of whose parameters stacks the weights of several models along dimension 0.

    Its parameters need groups that know of the copies, which it makes itself.
    """

    @abstractmethod
    def __len__(self) -> int:
        """How many models there are."""
