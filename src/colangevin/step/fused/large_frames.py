"""Drifts of large matrices: products by cuBLAS in 16-bit parts, what is between them by kernels.

A step does 20 s^2 r + 9 s^3 floating-point operations, all on 16-bit numbers, and 27 n^3 on a square matrix
of side n; `torch.optim.Muon` does 20 s^2 r + 10 s^3. At 790 TFLOP/s ours are 19 ms for n = 8192, and 20 ms
for four of 4096 x 4096 and two of 11008 x 4096. An H200 takes 28 ms and 36 ms, and for Muon 25 ms and 30 ms.
What remains is the rate of the products, 600 to 750 TFLOP/s, and the passes over memory between them.
"""

import torch
from torch import Tensor

from colangevin.constraints import solves
from colangevin.kernels.orthogonal import large_bands, large_squares
from colangevin.kernels.orthogonal.landing import X_UNIT
from colangevin.kernels.symmetric_product import symmetric_product
from colangevin.step.fused.launch import Launch, run
from colangevin.step.fused.matrices import Matrices
from colangevin.step.fused.orthogonalise import gram_constants
from colangevin.step.fused.tilings import Matrix, Tiling, bands, double_uppers, tiles_of, uppers
from colangevin.step.fused.uploads import Uploads

__all__ = ["LargeFrame", "is_large"]

# Shorter side from which on this takes less time than the kernels of small matrices, which are launched once
# for all. On an H200 four of side 2048 take 5.6 ms this way, 3.1 ms of it on the device, and 5.2 ms that way.
_LARGE = 3072
# Quasi-Newton iterations, all of which are made; of a square matrix fewer do, since M commutes with A. A step
# with a|P| below 0.8 is then near enough to be corrected; a longer one is left to the kernels of small
# matrices, whose iterations end when it is.
_ITERATIONS, _ITERATIONS_OF_SQUARES = 3, 2
# Products that the matrix units sum before float32 does. They truncate: the diagonal of X X^T, a sum of
# squares, came out smaller by 3e-5 at r = 4096 in one sum, by 3e-6 in sums of 512.
_RUN = 256
# The largest entry of P in the unit of its float16. Those of K and T are at most sqrt(r) times as large.
_LARGEST = 64.0
_TOP = torch.bfloat16  # has the range of float32
_FINE = torch.float16


def is_large(matrix: Matrix) -> bool:
    """Whether a matrix is worth the launches, and is cut into tiles without padding."""
    whole = (min(matrix.rows, matrix.columns), max(matrix.rows, matrix.columns)) == matrix.padded
    return whole and matrix.padded[0] >= _LARGE and matrix.pairs_of_tiles


class LargeFrame:
    """One large matrix, and the launches that move it.

    Args:
        matrix: what is to be moved.
        upload: brings a table to its device.
    """

    def __init__(self, matrix: Matrix, upload: Uploads) -> None:
        self._matrix = matrix
        self._upload = upload
        self._device = upload.device
        self._iterations = _ITERATIONS_OF_SQUARES if matrix.rows == matrix.columns else _ITERATIONS
        #: takes what is too far for this
        self._small = Matrices([matrix], upload, overdamped=False, varies=False)
        over = self._over
        self._extent = over(bands, large_bands.large_extent)
        self._split = over(bands, large_bands.large_split)
        self._halves = over(uppers, large_squares.large_halves)
        self._gram = over(uppers, large_squares.large_gram)
        self._iterate = over(uppers, large_squares.large_iterate)
        self._normal = over(uppers, large_squares.large_normal)
        self._land = over(bands, large_bands.large_land)
        self._examine = over(
            double_uppers, large_squares.large_examine, RUN=_RUN, DEPTH=32, num_warps=8, num_stages=3
        )
        self._correct = over(bands, large_bands.large_correct)
        self._mean = over(uppers, large_squares.large_mean)
        self._finish = over(bands, large_bands.large_finish)
        s, r = matrix.padded
        self._outer = Launch(symmetric_product, **gram_constants(1, s, r), ADD=False)
        self._of_outer = upload([1.0, 0.0, 0.0], torch.float32)
        # C = 3 E^2/8 - E/2, of (I + E)^(-1/2) - I
        self._expansion = Launch(symmetric_product, **gram_constants(1, s, s), ADD=True)
        unit, error_unit = large_squares.C_UNIT.value, large_squares.E_UNIT.value
        scales = [0.375 * unit / error_unit**2, -0.5 * unit / error_unit, 0.0]
        self._of_expansion = upload(scales, torch.float32)

    def _over(self, tiling: Tiling, function: object, **constants: object) -> list[tuple[Launch, Tensor]]:
        """The launch with a program for each tile."""
        names = function.arg_names  # type: ignore[attr-defined]
        return [
            (
                Launch(function, len(tiles), **{k: v for k, v in shape if k in names}, **constants),
                self._upload(tiles, torch.int32),
            )
            for shape, tiles in tiles_of([(0, self._matrix)], tiling).items()
        ]

    def tangent(self, rates: Tensor) -> None:
        """Project the momentum onto the cotangent space; see :class:`Matrices`."""
        self._small.tangent(rates)

    def drift(self, rates: Tensor) -> None:
        """Move along the projected momentum and land on the manifold; see :class:`Matrices`."""
        self._small.drift(rates, but=self._taken(rates))
        for total in solves.totals("Orthogonal", self._device):
            total[solves.Solves._fields.index("iterations")].add_(self._iterations)

    def _taken(self, rates: Tensor) -> Tensor:
        """Take the step if the landing is near enough, and return whether it was, on the device."""
        s, r = self._matrix.padded
        table = self._small.table

        def parts(count: int, columns: int, dtype: torch.dtype) -> list[Tensor]:
            return list(torch.empty(count, s, columns, dtype=dtype, device=self._device))

        extent = torch.zeros(1, device=self._device)
        run(table, [(self._extent, (extent,))])
        unit = _LARGEST / extent.clamp(min=torch.finfo(extent.dtype).tiny * _LARGEST)
        slow = rates / unit  # the drift of P in this unit
        X_fine, P_fine = parts(2, r, _FINE)
        run(table, [(self._split, (unit, X_fine, P_fine))])
        K, G, E, M, product = parts(5, s, torch.float32)
        multiply(X_fine, P_fine.mT, K, scale=1 / X_UNIT.value)
        self._outer(P_fine, P_fine, G, self._of_outer)
        M_top, N_top, U, E_top = parts(4, s, _FINE)
        run(table, [(self._halves, (K, M_top, N_top))])
        multiply(M_top, N_top, product)
        run(table, [(self._gram, (K, G, product, slow, E, M, M_top, N_top))])
        for _ in range(self._iterations):
            multiply(M_top, N_top, product)
            run(table, [(self._iterate, (K, E, product, slow, M, M_top, N_top))])
        diagonal = torch.empty(s, device=self._device)
        run(table, [(self._normal, (K, M, slow, U, diagonal))])
        P, X = parts(2, r, torch.float32)
        multiply(U, X_fine, P)
        landed, X_parts, P_parts = parts(2, r, _FINE), parts(2, r, _TOP), parts(2, r, _TOP)
        run(table, [(self._land, (diagonal, rates, P, *landed, *P_parts))])
        squares = torch.zeros(s, device=self._device)
        run(table, [(self._examine, (*landed, E_top, squares))])
        largest = squares.amax()  # NaN if there is one
        C, T = U, E_top  # which are read no more when these are written
        self._expansion(E_top, E_top, C, self._of_expansion)
        multiply(C, landed[0], X)
        run(table, [(self._correct, (*landed, X, *X_parts))])
        multiply(X_parts[1], P_parts[0].mT, K)
        multiply(X_parts[0], P_parts[1].mT, K, add=True)
        multiply(X_parts[0], P_parts[0].mT, K, add=True)
        run(table, [(self._mean, (K, unit, T, diagonal))])
        TX = torch.empty_like(P)
        multiply(T, landed[1], TX)
        multiply(T, landed[0], TX, add=True)
        run(table, [(self._finish, (X, P, TX, diagonal, unit, largest))])
        near: Tensor = largest <= large_bands.ENOUGH.value
        return near


def multiply(left: Tensor, right: Tensor, out: Tensor, *, scale: float = 1.0, add: bool = False) -> None:
    """A product of matrices of 16-bit numbers in float32.

    Args:
        left: a factor.
        right: the other.
        out: where it goes.
        scale: what the product is multiplied by.
        add: whether it is added to what is there.
    """
    beta = float(add)
    if left.is_cuda:
        torch.ops.aten.addmm.dtype_out(out, left, right, torch.float32, beta=beta, alpha=scale, out=out)
    else:  # where torch has no such product
        torch.addmm(out, left.float(), right.float(), beta=beta, alpha=scale, out=out)
