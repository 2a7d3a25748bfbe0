"""Newton-Schulz: nearly orthogonal matrices with the singular vectors of given ones, as Muon uses them."""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["PRECISION", "NewtonSchulz"]

#: of the iteration, as in `torch.optim.Muon`
PRECISION = torch.bfloat16

_LARGEST = 1e15  # entries whose squares and their sum are in the range of bfloat16


@dataclass(frozen=True)
class NewtonSchulz:
    r"""The iteration of `torch.optim.Muon`: :math:`X \leftarrow aX + b(XX^T)X + c(XX^T)^2 X`, in bfloat16.

    With five steps of the usual coefficients it brings singular values near 1, between 0.7 and 1.2 or so;
    those far below eps of the matrix's norm stay small.

    Attributes:
        coefficients: a, b and c.
        steps: how many.
        eps: the smallest norm that a matrix is divided by before the first.
    """

    coefficients: tuple[float, float, float]
    steps: int
    eps: float

    def __call__(self, stack: Tensor) -> Tensor:
        """The matrices of a stack, orthogonalised.

        Args:
            stack: of shape (copies, rows, columns).

        Returns:
            A stack of the same shape and dtype.
        """
        # one after the other, as torch does it: products of a batch round in another order
        return torch.stack([self._one(matrix) for matrix in stack]).to(stack.dtype)

    def _one(self, matrix: Tensor) -> Tensor:
        a, b, c = self.coefficients
        tall = matrix.shape[0] > matrix.shape[1]
        if matrix.dtype == torch.float64:  # whose range is larger than that of bfloat16
            matrix = matrix / (matrix.abs().max() / _LARGEST).clamp(min=1)
        X = matrix.to(PRECISION)
        X = X.T if tall else X
        X = X / X.norm().clamp(min=self.eps)
        for _ in range(self.steps):
            gram = X @ X.T
            X = torch.addmm(X, torch.addmm(gram, gram, gram, beta=b, alpha=c), X, beta=a)
        return X.T if tall else X
