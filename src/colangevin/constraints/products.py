"""Products with a tall matrix Q: the weight's matrix, or its transpose where the weight is wide.

They are computed in the weight's own orientation. Transposing a weight would cost as much as a product.
"""

from torch import Tensor

__all__ = ["along", "gram", "gram_error", "inner", "largest", "norm", "plus_identity", "symmetric", "wide"]

# A symmetric product of at least this side is computed in blocks, none of them twice. Of a smaller one the
# calls would cost more than the saved half.
_WORTH_HALVING = 256


def wide(q: Tensor) -> bool:
    """Whether Q is the transpose of q."""
    return q.shape[-2] < q.shape[-1]


def inner(q: Tensor, p: Tensor) -> Tensor:
    """Q^T P."""
    return q @ p.mT if wide(q) else q.mT @ p


def along(q: Tensor, M: Tensor) -> Tensor:
    """Q M for a symmetric M."""
    return M @ q if wide(q) else q @ M


def gram_error(q: Tensor) -> Tensor:
    """Q^T Q - I."""
    return plus_identity(gram(q, -2 if wide(q) else -1), -1)


def gram(q: Tensor, dim: int) -> Tensor:
    """The inner products of the rows (or columns) of q; of large ones no block is computed twice."""
    s = q.shape[dim]
    if s < _WORTH_HALVING:
        return q @ q.mT if dim == -2 else q.mT @ q
    one, other = q.split([s // 2, s - s // 2], dim)
    across = one @ other.mT if dim == -2 else one.mT @ other
    made = q.new_empty(q.shape[0], s, s)
    made[:, : s // 2, : s // 2] = gram(one, dim)
    made[:, s // 2 :, s // 2 :] = gram(other, dim)
    made[:, : s // 2, s // 2 :] = across
    made[:, s // 2 :, : s // 2] = across.mT
    return made


def plus_identity(matrix: Tensor, scale: float = 1) -> Tensor:
    """Add a multiple of I to square matrices, in place."""
    matrix.diagonal(dim1=-2, dim2=-1).add_(scale)
    return matrix


def symmetric(matrix: Tensor) -> Tensor:
    """The symmetric part of square matrices."""
    return (matrix + matrix.mT).mul_(0.5)


def largest(matrix: Tensor) -> Tensor:
    """Largest absolute entry of each matrix of a stack; NaN if there is one."""
    return matrix.abs().amax(dim=(-2, -1))


def norm(matrix: Tensor) -> Tensor:
    """A bound on the spectral norm of each symmetric matrix of a stack: the largest row sum."""
    return matrix.abs().sum(-1).amax(-1)
