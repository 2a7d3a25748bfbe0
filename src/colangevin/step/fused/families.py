"""The mover of each family of parameters."""

from typing import TYPE_CHECKING

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
    from colangevin.step.fused.adam import AdamLineMover, AdamSphereMover
    from colangevin.step.fused.frames import OrthogonalMover
    from colangevin.step.fused.lines import ElementwiseMover
    from colangevin.step.fused.muon import MuonMover
    from colangevin.step.fused.muon_frames import MuonFramesMover
    from colangevin.step.fused.spheres import SphereMover
    from colangevin.step.fused.wide import AdamWideMover, WideMover

    movers: dict[object, type[Fused]] = {
        "lines": ElementwiseMover,
        "spheres": SphereMover,
        "wide spheres": WideMover,
        "frames": OrthogonalMover,
        "muon": MuonMover,
        "muon on frames": MuonFramesMover,
        "lines, Adam": AdamLineMover,
        "spheres, Adam": AdamSphereMover,
        "wide spheres, Adam": AdamWideMover,
    }
    return movers[family[0]](entries)
