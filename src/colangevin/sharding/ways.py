"""Ways: how the parts of a sharded weight come to a step.

- *alone*: every process steps its part;
- *together*: every process steps its part, with sums over the processes in between;
- *owned*: one process steps the whole weight, which is sent to it and back.
"""

import math
from typing import Literal

from colangevin.constraints import Manifold
from colangevin.constraints.forms import OrthogonalForm, SphereForm
from colangevin.sharding.layout import Layout
from colangevin.sharding.region import Region
from colangevin.sharding.split import Split
from colangevin.sharding.split_frames import SplitFrames
from colangevin.sharding.split_spheres import SplitSpheres

__all__ = ["Way", "part_of", "summed", "way"]

Way = Literal["alone", "together", "owned"]

# What each of R processes sends for a step with momentum, in units of s^2 numbers: three sums of s x s
# matrices, each sent twice by a ring. And in units of r s / R: the parts of weight, gradient and momentum to
# the owner, and on average as much as the parts of weight and momentum back. Without momentum it is 4 and 3:
# nearly the same ratio, so that the way does not depend on the optimizer.
_TOGETHER, _OWNED = 6, 5


def way(layout: Layout, manifold: Manifold) -> Way:
    """How a weight is stepped. It is the same on every process.

    Args:
        layout: of the weight.
        manifold: of the whole weight.

    Returns:
        The way.
    """
    cut = layout.cut_dims
    if not cut or (manifold.independent == "rows" and cut == {0}):
        return "alone"
    if manifold.independent == "entries" and layout.windowed:
        return "alone"
    return "together" if _sums_suffice(layout, manifold) and layout.windowed else "owned"


def summed(layout: Layout, manifold: Manifold) -> tuple[int, ...]:
    """The dimensions of the mesh whose processes take sums, where the parts of a weight move together."""
    if isinstance(manifold.form, OrthogonalForm):
        return layout.cutting
    # rows move alone: those that have other rows have nothing to do with it
    return tuple(d for d in layout.cutting if (cut := layout.cuts[d]) is not None and cut[0] > 0)


def part_of(manifold: Manifold, region: Region, split: Split) -> Manifold:
    """The manifold of a part that moves together with the others.

    Args:
        manifold: of the whole weight.
        region: the part.
        split: how the weight is cut.

    Returns:
        The manifold.
    """
    constraint = manifold.constraint
    if isinstance(manifold.form, OrthogonalForm):
        return SplitFrames(constraint, region.shape, split)
    if region.shape[0]:
        constraint = constraint.part(region.whole, region.slices)
    return SplitSpheres(constraint, region.shape, split)


def _sums_suffice(layout: Layout, manifold: Manifold) -> bool:
    """Whether the parts can be stepped by sums, and that sends less than sending the weight."""
    if isinstance(manifold.form, SphereForm):
        return not manifold.form.slack
    if not isinstance(manifold.form, OrthogonalForm):
        return False
    rows, columns = manifold.configuration_shape
    along_rows = 0 in layout.cut_dims
    if (rows < columns) == along_rows or (along_rows and len(layout.cut_dims) > 1):
        return False
    (s, r), ranks = sorted((rows, columns)), math.prod(layout.mesh[d] for d in layout.cutting)
    return _TOGETHER * s * ranks <= _OWNED * r
