"""Orthogonality steps of a set of matrices: momenta made cotangent, and drifts that land on the manifold.

The formulas and their letters are those of :mod:`colangevin.kernels.orthogonal`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.constraints import solves
from colangevin.kernels.columns import MatrixRow
from colangevin.step.fused.frame_launches import FrameLaunches
from colangevin.step.fused.launch import Sequel, run
from colangevin.step.fused.tilings import Matrix
from colangevin.step.fused.uploads import Uploads

__all__ = ["Matrices"]

_PART = torch.bfloat16  # a float32 number is nearly the sum of two of these
_FINE_PART = torch.float16  # and is the sum of two of these, if it is neither large nor small


class Matrices:
    """A table of matrices on one device, and the launches that move all of them.

    Args:
        matrices: what is to be moved.
        upload: brings a table to their device.
        overdamped: whether there are no momenta.
        varies: whether there is a row of rates for each matrix.
    """

    def __init__(
        self, matrices: Sequence[Matrix], upload: Uploads, *, overdamped: bool, varies: bool
    ) -> None:
        #: where each matrix begins in the overdamped step's copy of the weights
        self.offsets: list[int] = []
        rows: list[MatrixRow] = []
        band = square = copied = 0
        for matrix in matrices:
            s, r = sorted((matrix.rows, matrix.columns))
            high, long = matrix.padded
            # The copies of one parameter must lie without gaps. They do: if its first is aligned here, the
            # size of an aligned matrix, a multiple of 16, keeps all others aligned.
            if matrix.layout == "aligned":
                copied = -(-copied // 16) * 16
            self.offsets.append(copied)
            rows.append(
                MatrixRow(
                    configuration=matrix.configuration,
                    momentum=matrix.momentum,
                    band=band,
                    square=square,
                    ahead=copied,
                    s=s,
                    r=r,
                    padded_s=high,
                    padded_r=long,
                )
            )
            band += high * long
            square += high * high
            copied += s * r
        self._band_size, self._square_size = band, square
        #: numbers in the overdamped step's copy of the weights
        self.copy_size = copied
        #: a row for each matrix
        self.table = upload(rows, torch.int64)
        self._device = upload.device
        self._launches = FrameLaunches(matrices, upload, overdamped=overdamped, varies=varies)

    def _parts(self, count: int, size: int, *, fine: bool = False) -> list[Tensor]:
        return list(torch.empty(count, size, dtype=_FINE_PART if fine else _PART, device=self._device))

    def tangent(self, rates: Tensor) -> None:
        """Project the momenta onto the cotangent spaces.

        Args:
            rates: of the step. A kernel shared with :meth:`drift` reads them; the projection has no use for
                them.
        """
        launches = self._launches
        parts = self._parts(4, self._band_size)  # of X and P
        K, *rest = torch.empty(4, self._square_size, device=self._device)
        S_high, S_low, *D = self._parts(4, self._square_size)
        sequels: list[Sequel] = [
            (launches.split, (parts[0], *parts)),  # without an X_bar, whose place any tensor may take
            (launches.inner, (*parts, K, K)),  # without G
            (launches.halves, (K, rates, *rest, S_high, S_low, *D)),
            (launches.tangent, (*parts[:2], S_high, S_low)),
        ]
        run(self.table, sequels)

    def drift(self, rates: Tensor, ahead: Tensor | None = None, but: Tensor | None = None) -> None:
        """Move along the projected momenta and land on the manifold, or land from given points.

        Args:
            rates: of the step.
            ahead: the overdamped step's X_bar, laid out as the weights are.
            but: whether the matrices stay where they are, on the device.
        """
        # of a matrix without rows and columns every launch ends at once
        table = self.table if but is None else self.table.masked_fill(but, 0)
        launches = self._launches
        momentum = ahead is None
        if ahead is None:
            ahead = rates  # no kernel reads it
        parts, landed = self._parts(4, self._band_size), self._parts(2, self._band_size, fine=True)
        # the quasi-Newton iteration goes from M to spare and back: M and M/2 - B, in two parts each
        U, D, Z, M, spare = (self._parts(count, self._square_size) for count in (2, 2, 2, 4, 4))
        E_high, L = self._parts(2, self._square_size)
        C, *T = self._parts(3, self._square_size, fine=True)
        K, G, S, A, E, B, arrived, *factors = torch.empty(12, self._square_size, device=self._device)
        # numbers for each matrix, in rows
        iterations = launches.quasi_newton_iterations
        zeros = torch.zeros(
            iterations + launches.newton_schulz_iterations + 10, launches.padded_count, device=self._device
        )
        bound, last, T_unit, *extents = zeros[:5]
        arrivals, polar_arrivals = zeros[5:7].view(torch.int32)
        sizes, polar_sizes = zeros[7 : iterations + 9], zeros[iterations + 9 :]
        size, size_at = sizes[-1], list(sizes)
        size_at[0].fill_(float("inf"))  # the residual before the start, which any first residual improves on

        sequels: list[Sequel] = [
            (launches.split, (ahead, *parts)),
            (launches.products, (*parts, K, G)),
            (launches.halves, (K, rates, S, A, B, *U, *D)),
            (launches.gram, (G, S, B, *U, *D, rates, E, *M, size_at[1], bound)),
        ]
        for k in range(launches.apart):
            sequels.append((launches.quasi_newton, (E, B, *M, *spare, *size_at[k : k + 3])))
            M, spare = spare, M
        sequels += [
            (launches.to_the_end, (E, B, *M, *spare, sizes[launches.apart :], arrivals)),
            (launches.polar, (E, bound, size, *factors, polar_sizes, polar_arrivals)),
            (launches.choose, (K, *M[:2], factors[1], bound, size, S, A, rates, arrived, *U, *Z, *D)),
        ]
        if momentum:
            sequels.append((launches.arrival, (K, G, arrived, *U, *Z, *D, size, rates, S, L, *extents)))
        sequels += [
            (launches.land, (ahead, *parts, *U, *Z, size, rates, *landed)),
            (launches.examine, (*landed, E, E_high, last)),
            (launches.correction, (E, E_high, last, C, S, L, *extents, size, rates, *T, T_unit)),
            (launches.correct, (*landed, C, *T, T_unit, last)),
        ]
        run(table, sequels)
        if solves.current.get():
            for total in solves.totals("Orthogonal", self._device):
                launches.count(sizes[1:], total)
