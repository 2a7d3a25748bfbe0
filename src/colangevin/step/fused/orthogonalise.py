"""Newton-Schulz of many matrices of one shape at a time, as :mod:`colangevin.dynamics.newton_schulz` has it."""

import torch
from torch import Tensor

from colangevin.dynamics.newton_schulz import NewtonSchulz
from colangevin.kernels.symmetric_product import symmetric_product
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.uploads import Uploads

__all__ = ["Orthogonaliser"]

_BLOCK, _DEPTH = 128, 64  # rows and columns of a tile of a symmetric product, and how many products it sums


class Orthogonaliser:
    """The launches of an iteration over stacks of one shape.

    :math:`XX^T` and its powers are symmetric, and computed at half the work.

    Args:
        iteration: the coefficients, the number of steps and the smallest norm.
        shape: of a stack, (matrices, rows, columns).
        upload: brings a table to the device.
    """

    def __init__(self, iteration: NewtonSchulz, shape: tuple[int, int, int], upload: Uploads) -> None:
        self._iteration = iteration
        count, rows, columns = shape
        self._tall = rows > columns
        s, r = sorted((rows, columns))
        across = -(-s // _BLOCK)
        tiles = across * (across + 1) // 2
        a, b, c = iteration.coefficients
        self._a = a
        self._scales = upload([1.0, 0.0], torch.float32), upload([c, b], torch.float32)
        common = {"m": s, "tiles": tiles, "BLOCK": _BLOCK, "DEPTH": _DEPTH}
        self._gram = Launch(
            symmetric_product,
            count * tiles,
            k=r,
            TRANSPOSED=self._tall,
            ADD=False,
            EVEN=r % _DEPTH == 0,
            **common,
        )
        self._powers = Launch(
            symmetric_product,
            count * tiles,
            k=s,
            TRANSPOSED=False,
            ADD=True,
            EVEN=s % _DEPTH == 0,
            **common,
        )

    def __call__(self, stack: Tensor) -> Tensor:
        """The matrices, orthogonalised.

        Args:
            stack: of the shape, contiguous.

        Returns:
            A stack of the same shape and dtype.
        """
        X = stack / torch.linalg.vector_norm(stack, dim=(1, 2), keepdim=True).clamp(min=self._iteration.eps)
        s = min(stack.shape[1:])
        gram, powers = stack.new_empty(2, len(stack), s, s)
        for _ in range(self._iteration.steps):
            self._gram(X, X, gram, self._scales[0])
            self._powers(gram, gram, powers, self._scales[1])
            left, right = (X, powers) if self._tall else (powers, X)
            X = torch.baddbmm(X, left, right, beta=self._a)
        return X
