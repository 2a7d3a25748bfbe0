"""Singular values and norms of rows of a network's weights, to show what constraints and decay do to them."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["row_norms", "singular_values"]

# Numbers of a weight that are kept, evenly by rank where there are more.
_MOST = 64


@torch.no_grad()
def singular_values(model: nn.Module) -> tuple[list[str], NDArray[np.float32]]:
    """Names of all weights that are matrices, and singular values of each, the largest first.

    Args:
        model: the network.

    Returns:
        The names, and an array of shape (1, 1, weights, most). A row ends in NaN where a weight has fewer
        values, and is all NaN where a weight is not finite.
    """
    named = _matrices(model)
    return list(named), _table([torch.linalg.svdvals(matrix) for matrix in named.values()])


@torch.no_grad()
def row_norms(model: nn.Module) -> NDArray[np.float32]:
    """Norms of the rows of the same weights, in the same form."""
    norms = [torch.linalg.vector_norm(matrix, dim=1) for matrix in _matrices(model).values()]
    return _table([norm.sort(descending=True).values for norm in norms])


def _matrices(model: nn.Module) -> dict[str, Tensor]:
    """Weights as matrices on the CPU, which is faster at many small ones; without rows if not finite."""
    named = {name: weight.flatten(1).cpu() for name, weight in model.named_parameters() if weight.dim() > 1}
    return {name: each if bool(each.isfinite().all()) else each[:0] for name, each in named.items()}


def _table(ranked: list[Tensor]) -> NDArray[np.float32]:
    """Numbers of every weight, the largest first, as many as are kept."""
    most = min(_MOST, max(map(len, ranked)))
    table = np.full((1, 1, len(ranked), max(1, most)), np.nan, np.float32)
    for number, values in enumerate(ranked):
        if len(values):
            kept = torch.linspace(0, len(values) - 1, min(most, len(values))).round().long()
            table[0, 0, number, : len(kept)] = values[kept].numpy()
    return table
