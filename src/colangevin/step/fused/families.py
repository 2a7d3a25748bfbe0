"""The mover of each family of parameters."""

from typing import TYPE_CHECKING

from colangevin.optim.entry import Entry
from colangevin.step.fused.eligible import Family

if TYPE_CHECKING:
    from colangevin.step.fused.mover import Fused

__all__ = ["mover"]


def mover(kind: Family, entries: list[Entry]) -> "Fused":
    """The launches for parameters of one family.

    Args:
        kind: the family, as :func:`colangevin.step.fused.eligible.family` names it.
        entries: its parameters.

    Returns:
        What moves all of them.
    """
    # imported here, because these need Triton
    from colangevin.step.fused.frames import OrthogonalMover
    from colangevin.step.fused.lines import ElementwiseMover
    from colangevin.step.fused.spheres import SphereMover

    movers: dict[object, type[ElementwiseMover | SphereMover | OrthogonalMover]] = {
        "elementwise": ElementwiseMover,
        "sphere": SphereMover,
        "orthogonal": OrthogonalMover,
    }
    return movers[kind[0]](entries)
