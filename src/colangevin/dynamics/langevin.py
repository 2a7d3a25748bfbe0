"""What the over- and the underdamped step share beside those that are preconditioned."""

import torch

from colangevin.constraints.dtypes import state_dtype
from colangevin.constraints.manifold import Manifold

__all__ = ["Langevin"]


class Langevin:
    """A step of Langevin dynamics: the gradient moves a weight as it is, and there may be noise."""

    #: whether weight decay is a move of its own rather than a part of the gradient
    decoupled = False
    #: whether a weight with two or more dimensions moves as one matrix, also where its entries are free
    matrices = False

    def precision(self, manifold: Manifold, dtype: torch.dtype) -> torch.dtype:
        """The dtype of the state of a weight."""
        return state_dtype(dtype)
