"""Singular values of a network's weights, to show what constraints and decay do to them."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

__all__ = ["singular_values"]

# Singular values of a weight that are kept, evenly by rank where there are more.
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
    named = {name: weight.flatten(1) for name, weight in model.named_parameters() if weight.dim() > 1}
    most = min(_MOST, max(min(matrix.shape) for matrix in named.values()))
    table = np.full((1, 1, len(named), most), np.nan, np.float32)
    for number, matrix in enumerate(named.values()):
        if bool(matrix.isfinite().all()):
            values = torch.linalg.svdvals(matrix).cpu()
            kept = torch.linspace(0, len(values) - 1, min(most, len(values))).round().long()
            table[0, 0, number, : len(kept)] = values[kept].numpy()
    return list(named), table
