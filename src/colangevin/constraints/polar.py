"""The nearest orthonormal matrix, of any finite one."""

from collections.abc import Callable

import torch
from torch import Tensor

from colangevin.constraints.products import along, gram_error, inner

__all__ = ["polar"]

# An eigenvalue of Q^T Q below this share of the largest has too few correct digits for the polar factor.
# Above it the factor is right to 1e-8, and the correction at the end squares that error.
_SINGULAR = 1e-8


def polar(q_bar: Tensor, draw: Callable[[], Tensor] | None = None) -> Tensor:
    r"""The polar factor :math:`\bar Q (\bar Q^T \bar Q)^{-1/2}`, computed in float64.

    It is the nearest orthonormal matrix. Scaling first keeps entries of any finite size from overflowing.
    Where :math:`\bar Q` is nearly singular it comes from an SVD, :math:`U V^T`, which takes longer: singular
    vectors are orthonormal whatever the rank, so this cannot fail. To a matrix without full rank many are
    equally near.

    Args:
        q_bar: a stack of finite matrices.
        draw: makes a stack of orthonormal matrices, of which the nearest is then taken; without it, it is
            whichever the SVD gives.

    Returns:
        Orthonormal matrices of the dtype of ``q_bar``.
    """
    scale = q_bar.abs().amax(dim=(-2, -1), keepdim=True).clamp_min(torch.finfo(q_bar.dtype).tiny)
    x = (q_bar / scale).double()
    squares, V = torch.linalg.eigh(inner(x, x))
    factor = along(x, V * squares.clamp_min(torch.finfo(x.dtype).tiny).rsqrt().unsqueeze(-2) @ V.mT)
    singular = squares[:, 0] <= _SINGULAR * squares[:, -1]
    if bool(singular.any()):
        if draw is None:
            U, _, Vt = torch.linalg.svd(x[singular], full_matrices=False)
            factor[singular] = U @ Vt
        else:
            rounding = max(x.shape[1:]) * torch.finfo(q_bar.dtype).eps
            pairs = zip(x[singular], draw()[singular].double(), strict=True)
            factor[singular] = torch.stack([_completed(*pair, rounding) for pair in pairs])
    # one Newton step: it squares the error of Q^T Q - I that rounding has left
    factor = torch.sub(factor, along(factor, gram_error(factor)), alpha=0.5)
    return factor.to(q_bar.dtype)


def _completed(x: Tensor, drawn: Tensor, rounding: float) -> Tensor:
    """The polar factor of a matrix where it has rank; where it has none, the nearest to a drawn matrix."""
    U, sizes, Vt = torch.linalg.svd(x, full_matrices=False)
    rank = int((sizes > rounding * sizes[0]).sum())
    U, Vt = U[:, :rank], Vt[:rank]
    free = drawn - U @ (U.mT @ drawn)
    free = free - (free @ Vt.mT) @ Vt
    U_free, _, Vt_free = torch.linalg.svd(free, full_matrices=False)
    missing = len(sizes) - rank
    factor: Tensor = U @ Vt + U_free[:, :missing] @ Vt_free[:missing]
    return factor
