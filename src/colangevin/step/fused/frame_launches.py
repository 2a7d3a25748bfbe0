"""Every launch of an orthogonality step, with its tiles and what else is the same in every step."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
import triton
from torch import Tensor

from colangevin.constraints.solves import Solves
from colangevin.kernels.orthogonal import (
    arrival,
    correction,
    counting,
    inputs,
    landing,
    polar,
    quasi_newton,
    tangency,
)
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.tilings import Matrix, Tiling, bands, products, squares, tiles_of, uppers
from colangevin.step.fused.uploads import Uploads

__all__ = ["FrameLaunches", "Launches"]

#: a launch for each shape of tiles, with the table of those tiles
Launches = list[tuple[Launch, Tensor]]

# how many numbers of a sum over r, and of a sum over s, are loaded at a time
_LONG, _SHORT = 64, 32
# As in Orthogonal: a matrix whose residual is not down to 1e-4 after these iterations takes the polar factor.
# All numbers of iterations are even: results end up in the first of two workspaces.
_QUASI_NEWTON = 24
# enough for steps up to h|P| = 300
_NEWTON_SCHULZ = 24
# Quasi-Newton iterations with a launch each: those that most steps need. A launch that finds nothing left to
# do costs a few microseconds. One more launch makes all other iterations; its programs wait for each other.
# When that launch can have a program for every tile, it makes all iterations.
_COMMON = 8


class FrameLaunches:
    """The launches for a set of matrices.

    Args:
        matrices: what is moved.
        upload: brings a table to their device.
        overdamped: whether there are no momenta.
        varies: whether there is a row of rates for each matrix.
    """

    def __init__(
        self, matrices: Sequence[Matrix], upload: Uploads, *, overdamped: bool, varies: bool
    ) -> None:
        #: largest number of iterations of each kind
        self.quasi_newton_iterations, self.newton_schulz_iterations = _QUASI_NEWTON, _NEWTON_SCHULZ
        #: length of the tables with a number for each matrix: every row of several begins at 16 bytes
        self.padded_count = -(-len(matrices) // 4) * 4
        self._upload = upload
        # the largest first: the small ones then fill the gaps
        self._order = sorted(enumerate(matrices), key=lambda each: -math.prod(each[1].padded))
        over, together = self._over, self._together
        common = {"OVERDAMPED": overdamped, "VARIES": varies}
        momentum = {"MOMENTUM": not overdamped}

        self.split = over(bands, inputs.split, OVERDAMPED=overdamped)
        self.inner = over(squares, inputs.products, DEPTH=_LONG)
        self.products = over(products, inputs.products, DEPTH=_LONG)
        self.halves = over(squares, inputs.halves, **common)
        self.tangent = over(bands, tangency.tangent, DEPTH=_SHORT)
        self.gram = over(uppers, quasi_newton.gram, **common, DEPTH=_SHORT)
        self.quasi_newton = over(uppers, quasi_newton.quasi_newton, DEPTH=_SHORT)
        #: quasi-Newton iterations to be launched one by one
        self.apart = 0 if self._tiles(uppers) <= self._places else _COMMON
        left = {"ITERATIONS": _QUASI_NEWTON - self.apart, "DEPTH": _SHORT}
        self.to_the_end = together(uppers, quasi_newton.quasi_newton_to_the_end, **left)
        self.polar = together(squares, polar.polar, ITERATIONS=_NEWTON_SCHULZ)
        self.count = Launch(
            counting.count,
            1,
            row=self.padded_count,
            matrices=len(matrices),
            ROWS=_QUASI_NEWTON + 1,
            MATRICES=triton.next_power_of_2(self.padded_count),
            **{name.upper(): place for place, name in enumerate(Solves._fields)},
        )
        self.choose = over(squares, landing.choose, **common, num_stages=2)
        self.arrival = over(uppers, arrival.arrival, VARIES=varies, DEPTH=_SHORT)
        self.land = over(bands, landing.land, **common, DEPTH=_SHORT)
        self.examine = over(uppers, correction.examine, DEPTH=_LONG)
        self.correction = over(uppers, correction.correction, **momentum, VARIES=varies)
        self.correct = over(bands, correction.correct, **momentum, DEPTH=_SHORT)

    def _over(self, tiling: Tiling, function: Any, **constants: Any) -> Launches:
        """Launches with a program for each tile."""
        return [
            (Launch(function, len(tiles), **dict(shape), **constants), self._upload(tiles, torch.int32))
            for shape, tiles in tiles_of(self._order, tiling).items()
        ]

    def _together(self, tiling: Tiling, function: Any, **constants: Any) -> Launches:
        """Launches whose programs share the tiles out among them and wait for each other."""
        cooperative = {"launch_cooperative_grid": True} if self._upload.device.type == "cuda" else {}
        return [
            (
                Launch(
                    function,
                    min(len(tiles), self._places),
                    count=len(tiles),
                    matrices=self.padded_count,
                    MATRICES=triton.next_power_of_2(self.padded_count),
                    num_stages=2,
                    **dict(shape),
                    **constants,
                    **cooperative,
                ),
                self._upload(tiles, torch.int32),
            )
            for shape, tiles in tiles_of(self._order, tiling).items()
        ]

    def _tiles(self, tiling: Tiling) -> int:
        """How many tiles there are."""
        return sum(len(tiles) for tiles in tiles_of(self._order, tiling).values())

    @cached_property
    def _places(self) -> int:
        """How many programs of a kernel run at the same time, so that they can wait for each other."""
        device = self._upload.device
        if device.type != "cuda":
            return 1  # Triton's interpreter runs one program after the other
        properties = torch.cuda.get_device_properties(device)
        # a program takes at most half of a multiprocessor's registers, and 64 KiB of shared memory
        each = 2 if properties.shared_memory_per_multiprocessor >= 160 * 1024 else 1
        return each * int(properties.multi_processor_count)
