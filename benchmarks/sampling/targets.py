r"""Laws on manifolds, of density :math:`e^{\mathrm{tr}(F^T Q)}`, and one average whose exact value is known.

All are matrices with orthonormal columns: a point of S^2 is a 3 x 1 matrix.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import i0, i1
from torch import Tensor

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True)
class Target:
    """A law of matrices.

    Attributes:
        name: of the law.
        shape: of the matrices.
        force: F.
        exact: the average of the mean of the diagonal.
        step: size of our steps, at temperature 1.
    """

    name: str
    shape: tuple[int, int]
    force: tuple[float, ...]
    exact: float
    step: float

    @property
    def start(self) -> Tensor:
        """The mode."""
        return torch.eye(*self.shape, dtype=torch.float64)

    @property
    def slope(self) -> Tensor:
        """F, the gradient of the log-density."""
        F = torch.zeros(self.shape, dtype=torch.float64)
        F.diagonal().copy_(torch.tensor(self.force))
        return F

    def observe(self, Q: Tensor) -> Tensor:
        """The mean of the diagonal, of one matrix or a stack."""
        return Q.diagonal(dim1=-2, dim2=-1).mean(-1)


def _rotations(f: tuple[float, float, float]) -> float:
    """The mean of the diagonal on SO(3): the integral of Lee 2018, Eq. 10, for each of its entries."""
    u, lengths = np.polynomial.legendre.leggauss(400)
    moments = []
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        bessel = i0((f[i] - f[j]) * (1 - u) / 2) * i0((f[i] + f[j]) * (1 + u) / 2)
        weight = lengths * bessel * np.exp(f[k] * u)
        moments.append(float((weight * u).sum() / weight.sum()))
    return sum(moments) / 3


_FISHER = (2.0, 1.5, 0.5)

TARGETS = (
    Target("SO(2), 3 cos φ", (2, 2), (1.5, 1.5), float(i1(3) / i0(3)), 0.1),
    Target("S², κ = 2", (3, 1), (2.0,), 1 / math.tanh(2) - 1 / 2, 0.2),
    Target("SO(3), F = diag(2, 1.5, 0.5)", (3, 3), _FISHER, _rotations(_FISHER), 0.1),
)
