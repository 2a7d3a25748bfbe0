"""Landing on orthonormal matrices: the paper's quasi-Newton iteration, and how far to trust it."""

import torch
from torch import Tensor

from colangevin.constraints import solves
from colangevin.constraints.products import largest, norm, symmetric

__all__ = ["exact", "multipliers", "orthonormal", "safe"]

# The quasi-Newton iteration contracts by about sigma = h |P|_2 at worst and by 1 - sqrt(1 - sigma^2) at best.
# A matrix takes the polar factor, which is then both cheaper and safer, if its residual is not below _NEARLY
# after _TRIALS iterations (sigma above 0.7 or so), or if an earlier iteration does not reduce the residual to
# _PROGRESS of what it was. Below _NEARLY the iteration goes on to rounding.
_TRIALS, _NEARLY, _PROGRESS = 24, 1e-4, 0.9
_ITERATIONS = 80
# Largest |Q^T Q - I| left by the iteration, in units of the dtype's rounding: the recursion's own floor is
# about 2 units at s = 16 and 6 at s = 2048.
_TOLERANCE = 8.0
# Multipliers M up to which an error E of Q itself comes out halved, (2 |M| + |M|^2) |E| <= |E|/2, so that it
# cannot grow from step to step. With larger ones the result is looked at.
_SAFE = 0.22
# Largest |Q^T Q - I| of a result that was looked at, in units of the dtype's rounding; a polar factor has 3
# units at 32 x 32 and 17 at 1024 x 1024.
_RESULT = 32.0


def exact(error: Tensor) -> Tensor:
    """For each error Q^T Q - I of a stack whether it is that of a fresh result of the iteration."""
    return largest(error) <= _tolerance(error)


def orthonormal(error: Tensor) -> Tensor:
    """For each error Q^T Q - I of a stack whether it is rounding, also that of a polar factor."""
    return largest(error) <= _RESULT * torch.finfo(error.dtype).eps


def safe(M: Tensor) -> Tensor:
    """For each matrix of multipliers whether its result need not be looked at."""
    return norm(M) <= _SAFE


def _tolerance(error: Tensor) -> float:
    return _TOLERANCE * torch.finfo(error.dtype).eps


def multipliers(error: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    r"""Quasi-Newton for the symmetric M with :math:`(\bar Q - Q M)^T (\bar Q - Q M) = I`.

    In Gram form: with :math:`B = Q^T \bar Q` the iterate :math:`Q^{(k)} = \bar Q - Q M` has :math:`Q^{(k)T}
    Q^{(k)} = \bar Q^T \bar Q - MB - (MB)^T + M^2 = \bar Q^T \bar Q + Y + Y^T` with :math:`Y = M(\frac12 M -
    B)`, and the iteration (Eq. 54) reads :math:`M \leftarrow M + \frac12 (Q^{(k)T} Q^{(k)} - I)`: it costs
    one s x s product.

    Args:
        error: :math:`\bar Q^T \bar Q - I`.
        B: :math:`Q^T \bar Q`.

    Returns:
        M, and for each matrix whether the iteration converged; where it did not, M is 0.
    """
    error, minus_B = symmetric(error), -B
    M = torch.zeros_like(error)
    residual = error.clone()
    size = largest(residual)
    converged = size <= _tolerance(error)
    lost = torch.zeros_like(converged)
    k = 0
    while k < _ITERATIONS and not bool((converged | lost).all()):
        k += 1
        # a matrix that has converged stops, so that its result does not depend on the others of its
        # stack (and because at sigma > sqrt(3)/2 rounding grows again if the iteration goes on)
        if bool(converged.any()):
            residual.masked_fill_(converged.view(-1, 1, 1), 0)
        M.add_(residual, alpha=0.5)
        Y = M @ torch.add(minus_B, M, alpha=0.5)
        residual = torch.add(Y, Y.mT, out=residual).add_(error)
        before, size = size, largest(residual)
        converged = converged | (size <= _tolerance(error))
        near = size <= _NEARLY
        lost = lost | ~(near | (size <= _PROGRESS * before)) if k < _TRIALS else ~near
    if solves.current.get():
        solves.note("Orthogonal", M.device, len(M), k, (~converged).sum())
    if not bool(converged.all()):
        M.masked_fill_(~converged.view(-1, 1, 1), 0)
    return M, converged
