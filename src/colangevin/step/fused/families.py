"""The mover of each family of parameters."""

from typing import TYPE_CHECKING

from colangevin.constraints.forms import ElementwiseForm, OrthogonalForm, SphereForm
from colangevin.step.entry import Entry

if TYPE_CHECKING:
    from colangevin.step.fused.fused import Fused

__all__ = ["fused_mover"]


def fused_mover(entries: list[Entry]) -> "Fused":
    """The launches for parameters of one family.

    Args:
        entries: its parameters.

    Returns:
        What moves all of them.
    """
    # imported here, because these need Triton
    from colangevin.step.fused.frames import OrthogonalMover
    from colangevin.step.fused.lines import ElementwiseMover
    from colangevin.step.fused.spheres import SphereMover

    movers: dict[object, type[ElementwiseMover | SphereMover | OrthogonalMover]] = {
        ElementwiseForm: ElementwiseMover,
        SphereForm: SphereMover,
        OrthogonalForm: OrthogonalMover,
    }
    return movers[type(entries[0].form)](entries)
