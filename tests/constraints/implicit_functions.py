"""Functions g whose zeros are the manifolds of the tests of general constraints."""

from collections.abc import Callable

import torch
from torch import Tensor

R = 1.3


def within_radius(w: Tensor) -> Tensor:
    return w.square() - R**2


def row_norms(w: Tensor) -> Tensor:
    return w.square().sum(1) - R**2


def orthonormal_columns(w: Tensor) -> Tensor:
    s = w.shape[1]
    upper = torch.triu_indices(s, s)
    return (w.T @ w - torch.eye(s, dtype=w.dtype))[upper[0], upper[1]]


def ellipsoid(w: Tensor) -> Tensor:
    axes = torch.arange(1, w.numel() + 1, dtype=w.dtype).view(w.shape)
    return (axes * w.square()).sum() - 4


def torus(w: Tensor) -> Tensor:
    ring = w[:2].square().sum().sqrt() - 2
    return ring.square() + w[2].square() - 0.25


def unit_determinant(w: Tensor) -> Tensor:
    return torch.linalg.det(w) - 1


def row_sums(w: Tensor) -> Tensor:
    return w.sum(1) - 1


def unit_spectral_norm(w: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(w, 2) - 1


def rows_and_energy(w: Tensor) -> Tensor:
    return torch.cat((w.sum(1), w.square().sum().reshape(1) - 3))


# Functions without a closed form, each with the shape of its weight.
HARD: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "ellipsoid": (ellipsoid, (2, 3)),
    "torus": (torus, (3,)),
    "determinant": (unit_determinant, (3, 3)),
    "row-sums": (row_sums, (3, 4)),
    "spectral-norm": (unit_spectral_norm, (4, 3)),
    "rows-and-energy": (rows_and_energy, (2, 4)),
}


def inside_a_disc(w: Tensor) -> Tensor:
    return w.square().sum().reshape(1) - 1


def figure_eight(w: Tensor) -> Tensor:
    """A curve that crosses itself at the origin."""
    x, y = w
    return (x.square() + y.square()).square() - (x.square() - y.square())
