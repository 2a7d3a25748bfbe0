"""Spheres without slack whose rows are cut: what is sent are a few sums for each row."""

import torch
from torch import Tensor

from colangevin.constraints import Constraint
from colangevin.constraints.rows import rows_of
from colangevin.constraints.sphere import Spheres
from colangevin.sharding.split import Split

__all__ = ["SplitSpheres"]


class SplitSpheres(Spheres):
    r"""The parts of rows that a process holds, each on a sphere with the other parts of its row.

    Products such as $q \cdot p$ are sums over parts, in float64, in which no square of a float32 over- or
    underflows. A projection takes one sum over the processes, a drift two.

    Args:
        constraint: what holds these rows.
        shape: of the part.
        split: how the weight is cut.
    """

    def __init__(self, constraint: Constraint, shape: tuple[int, ...], split: Split) -> None:
        super().__init__(constraint, shape)
        self._split = split

    # ---- sums over whole rows --------------------------------------------------------------------

    def _sums(self, *parts: Tensor) -> Tensor:
        """The sums of whole rows, by one exchange for all of them."""
        return self._split.sum(torch.stack([part.sum(-1, keepdim=True) for part in parts]))

    def _scaled(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """A factor for each row, and rows in float64 that can be squared: their product are the rows."""
        if rows.dtype != torch.float64:
            return torch.ones((), dtype=torch.float64, device=rows.device), rows.double()
        # a part without entries has no largest one
        peak = torch.nn.functional.pad(rows.abs(), (0, 1)).amax(-1, keepdim=True)
        peak = self._split.largest(peak).clamp_min(torch.finfo(rows.dtype).tiny)
        return peak, rows / peak

    def _polar_form(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Lengths and directions of rows; a row of length 0 has direction 0."""
        peak, scaled = self._scaled(rows)
        norm = self._sums(scaled.square())[0].sqrt()
        direction = scaled / norm.masked_fill(norm == 0, torch.inf)
        return (peak * norm).to(rows.dtype), direction.to(rows.dtype)

    def _norms(self, weight: Tensor) -> Tensor:
        rows = rows_of(weight).double()
        return self._sums((rows / self._r(rows)).square())[0].squeeze(-1).sqrt()

    # ---- moves -----------------------------------------------------------------------------------

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        x = q / self._r(q)
        left, again = self._projected(x, p)
        while bool(again.any()):
            further, more = self._projected(x, left)
            left, again = torch.where(again, further, left), again & more
        return left

    def _projected(self, x: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """What of p lies along the sphere, and for each row whether that may be rounding for a large part."""
        peak, u = self._scaled(p)
        normal, square = self._sums(x.double() * u, u.square())
        left = torch.addcmul(p, x, (peak * normal).to(p.dtype), value=-1)
        return left, square > 4 * (square - normal.square())  # |p| > 2 |left|

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        r = self._r(q)
        s, u = self._polar_form(p)
        x = q / r
        phi = (a * (s / r)).clamp_max(torch.finfo(p.dtype).max)
        cos, sin = phi.cos(), phi.sin()
        x_bar = (cos * x).addcmul_(sin, u)
        v = (cos * u).addcmul_(sin, x, value=-1)
        square, normal = self._sums(x_bar.double().square(), x_bar.double() * v.double())
        length = square.sqrt()
        # a row that fell on the centre has no direction and stays where it is
        x_new = torch.where(length > 0, (x_bar / length).to(x.dtype), x)
        p_new = torch.addcmul(v, x_new, (normal / length.masked_fill(length == 0, 1)).to(v.dtype), value=-1)
        return r * x_new, s * p_new

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        r = self._r(q)
        length, direction = self._polar_form(q_bar)
        return r * torch.where(length > 0, direction, q / r)

    # ---- decisions -------------------------------------------------------------------------------

    def unchanged(self, weight: Tensor, q: Tensor) -> Tensor:
        return ~self._split.any(~super().unchanged(weight, q))
