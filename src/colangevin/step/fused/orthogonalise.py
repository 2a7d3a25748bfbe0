"""Newton-Schulz of all matrices of one shape at a time."""

from typing import Any

import torch
from torch import Tensor

from colangevin.dynamics.newton_schulz import NewtonSchulz
from colangevin.kernels.symmetric_product import symmetric_product
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.uploads import Uploads

__all__ = ["Orthogonaliser", "gram_constants"]

_BLOCK, _DEPTH = 128, 64  # rows and columns of a tile of a symmetric product, and how many products it sums
# Sides from which on half the tiles take less time than a product of cuBLAS. An H200 multiplies a matrix of
# side 4096 by its transpose in 0.12 ms at half the work and in 0.18 ms by cuBLAS, 32 of side 512 in 24 and
# in 20 us.
_WORTH_HALVING = 1024


def gram_constants(count: int, m: int, k: int) -> dict[str, Any]:
    """Constants of the launch that multiplies some m x k matrices by their transposes."""
    across = -(-m // _BLOCK)
    tiles = across * (across + 1) // 2
    sizes = {"programs": count * tiles, "m": m, "k": k, "tiles": tiles, "EVEN": k % _DEPTH == 0}
    return {**sizes, "BLOCK": _BLOCK, "DEPTH": _DEPTH, "num_warps": 8, "num_stages": 3}


class Orthogonaliser:
    """The launches of an iteration over stacks of one shape.

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
        self._halved = s >= _WORTH_HALVING
        a, b, c = iteration.coefficients
        self._of_gram = upload([1.0, 0.0, 0.0], torch.float32)
        self._gram = Launch(symmetric_product, **gram_constants(count, s, r), ADD=False)
        # with a I in the powers the last product adds nothing: torch would copy an addend to the result first
        self._of_powers = upload([c, b, a], torch.float32)
        self._powers = Launch(symmetric_product, **gram_constants(count, s, s), ADD=True)

    def __call__(self, stack: Tensor) -> Tensor:
        """The matrices, orthogonalised.

        Args:
            stack: of the shape, contiguous.

        Returns:
            A stack of the same shape and dtype, contiguous.
        """
        norms = torch.linalg.vector_norm(stack, dim=(1, 2), keepdim=True)
        X = stack / norms.clamp(min=self._iteration.eps)
        # of a tall matrix the steps move the transpose: the first and the last product turn it on the way
        X = X.mT if self._tall else X
        gram, powers = stack.new_empty(2, *X.shape[:2], X.shape[1])
        last = self._iteration.steps - 1
        for step in range(self._iteration.steps):
            if self._halved and X.is_contiguous():
                self._gram(X, X, gram, self._of_gram)
            else:
                torch.bmm(X, X.mT, out=gram)
            self._powers(gram, gram, powers, self._of_powers)
            X = torch.bmm(X.mT, powers).mT if self._tall and step == last else torch.bmm(powers, X)
        orthogonal: Tensor = X.mT if self._tall else X
        return orthogonal
