"""Small linear systems, one for each part of a weight, factored once and solved as often as is needed."""

import torch
from torch import Tensor

__all__ = ["Diagonal", "Factor", "cholesky", "lu", "rounding"]


class Factor:
    """A stack of matrices, factored.

    Args:
        matrix: the triangular factors; of 1 x 1 matrices the numbers themselves.
        pivots: of LU; None for Cholesky.
        singular: which matrices cannot be solved with, up to rounding.
    """

    def __init__(self, matrix: Tensor, pivots: Tensor | None, singular: Tensor) -> None:
        self.matrix, self.pivots, self.singular = matrix, pivots, singular

    def __getitem__(self, rows: Tensor) -> "Factor":
        pivots = None if self.pivots is None else self.pivots[rows]
        return Factor(self.matrix[rows], pivots, self.singular[rows])

    def solve(self, value: Tensor) -> Tensor:
        """The solution for one right-hand side a matrix, shape (parts, m)."""
        if value.shape[1] == 1:
            return value / self.matrix.squeeze(2)
        if self.pivots is None:
            return torch.cholesky_solve(value.unsqueeze(2), self.matrix).squeeze(2)
        solution: Tensor = torch.linalg.lu_solve(self.matrix, self.pivots, value.unsqueeze(2))
        return solution.squeeze(2)


class Diagonal:
    """A stack of diagonal matrices.

    Args:
        entries: shape (parts, m).
    """

    def __init__(self, entries: Tensor) -> None:
        self.entries = entries

    def __getitem__(self, rows: Tensor) -> "Diagonal":
        return Diagonal(self.entries[rows])

    def solve(self, value: Tensor) -> Tensor:
        """The solution for one right-hand side a matrix, shape (parts, m)."""
        return value / self.entries


def rounding(dtype: torch.dtype, size: int) -> float:
    """The share of a diagonal entry that is left by rounding alone in the factor of a singular matrix."""
    return 2 * torch.finfo(dtype).eps * size


def cholesky(A: Tensor) -> Factor:
    """Factor symmetric matrices; those that are not positive definite up to rounding are singular."""
    if A.shape[1] == 1:
        return Factor(A, None, ~(A[:, 0, 0] > 0))
    factor, failed = torch.linalg.cholesky_ex(A)
    # what is left of a diagonal entry once the rows before it are projected out
    left = factor.diagonal(dim1=1, dim2=2).square() / A.diagonal(dim1=1, dim2=2)
    return Factor(factor, None, (failed != 0) | ~(left.amin(1) > rounding(A.dtype, A.shape[1])))


def lu(A: Tensor) -> Factor:
    """Factor any matrices; solutions of singular ones are not finite."""
    if A.shape[1] == 1:
        return Factor(A, None, A[:, 0, 0] == 0)
    factor, pivots, failed = torch.linalg.lu_factor_ex(A)
    return Factor(factor, pivots, failed != 0)
