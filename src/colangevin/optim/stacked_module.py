"""Modules that are many models at once."""

from torch import nn

__all__ = ["StackedModule"]


class StackedModule(nn.Module):
    """A module each of whose parameters stacks the weights of several models along dimension 0.

    Its parameters need groups that know of the copies, which it makes itself.
    """

    def __len__(self) -> int:
        """How many models there are."""
        raise NotImplementedError
