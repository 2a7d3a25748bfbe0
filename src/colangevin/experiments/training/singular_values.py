"""Singular values and norms of rows of a network's weights, to show what constraints and decay do to them."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["row_norms", "singular_values"]

# Numbers of a weight that are kept, evenly by rank where there are more, and how many bits of each:
# a figure shows no more, and a file of them is half as large.
_MOST, _BITS = 64, 10


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
    return list(named), _table(named, torch.linalg.svdvals, {name: min(W.shape) for name, W in named.items()})


@torch.no_grad()
def row_norms(model: nn.Module) -> NDArray[np.float32]:
    """Norms of the rows of the same weights, in the same form."""
    named = _matrices(model)
    return _table(named, _sorted_norms, {name: len(W) for name, W in named.items()})


def _sorted_norms(matrix: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(matrix, dim=1)
    return norms.sort(descending=True).values


def _matrices(model: nn.Module) -> dict[str, Tensor]:
    """Weights as matrices, on the CPU: there are many small ones."""
    return {name: weight.flatten(1).cpu() for name, weight in model.named_parameters() if weight.dim() > 1}


def _table(
    named: dict[str, Tensor], ranked: Callable[[Tensor], Tensor], counts: dict[str, int]
) -> NDArray[np.float32]:
    """Numbers of every weight, the largest first: as many as there are, or as are kept."""
    most = min(_MOST, max(counts.values()))
    table = np.full((1, 1, len(named), most), np.nan, np.float32)
    for number, (name, matrix) in enumerate(named.items()):
        if bool(matrix.isfinite().all()):
            kept = torch.linspace(0, counts[name] - 1, min(most, counts[name])).round().long()
            table[0, 0, number, : len(kept)] = _rounded(ranked(matrix)[kept].numpy())
    return table


def _rounded(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """The nearest numbers of so many bits."""
    mantissas, exponents = np.frexp(numbers)
    rounded: NDArray[np.float32] = np.ldexp(np.round(mantissas * 2**_BITS), exponents - _BITS)
    return rounded
