"""The mover of each family of parameters."""

from typing import TYPE_CHECKING

from colangevin.constraints.forms import ElementwiseForm, OrthogonalForm, SphereForm
from colangevin.step.entry import Entry
from colangevin.step.fused.eligible import Family

if TYPE_CHECKING:
    from colangevin.step.fused.fused import Fused

__all__ = ["fused_mover"]


def fused_mover(family: Family, entries: list[Entry]) -> "Fused":
    """The launches for parameters of one family.

    Args:
        family: what they share; its first item says which mover takes them.
        entries: its parameters.

    Returns:
        What moves all of them.
    """
    # imported here, because these need Triton
    from colangevin.step.fused.frames import OrthogonalMover
    from colangevin.step.fused.lines import ElementwiseMover
    from colangevin.step.fused.muon import MuonMover
    from colangevin.step.fused.muon_frames import MuonFramesMover
    from colangevin.step.fused.spheres import SphereMover

    movers: dict[object, type[Fused]] = {
        ElementwiseForm: ElementwiseMover,
        SphereForm: SphereMover,
        OrthogonalForm: OrthogonalMover,
        "muon": MuonMover,
        "muon on frames": MuonFramesMover,
    }
    return movers[family[0]](entries)
