"""Statements that results can decide, and the paper's numbers to stand beside ours."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Better", "Claim", "Reported"]

#: the direction that a claim says
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Claim:
    """A statement as a comparison of a method with baselines on the same data.

    Attributes:
        source: figure, table or section of the paper; "not in the paper" for a question of our own.
        text: the statement in our words.
        measure: what is compared, a name in :data:`colangevin.experiments.catalogue.measures.MEASURES`.
        method: which the statement is about.
        baselines: what it is compared with; of several the best by its mean.
        better: which direction the statement says.
        paper: the paper's numbers; empty where it prints none.
        part: where; None for the only part.
        of: key of the claim of the paper, in :mod:`colangevin.experiments.catalogue.paper`, that this tests
            or is evidence for; empty for a question of our own.
        reading: how the paper is read, where that is not the claim's main reading.
        margin: by how much the method is better at least; below 0, by how much it may be worse.
    """

    source: str
    text: str
    measure: str
    method: str
    baselines: tuple[str, ...]
    better: Better
    paper: str = ""
    part: str | None = None
    of: str = ""
    reading: str = ""
    margin: float = 0.0


@dataclass(frozen=True)
class Reported:
    """A number of the paper.

    Attributes:
        method: whose number.
        measure: of what, a name in :data:`colangevin.experiments.catalogue.measures.MEASURES`.
        text: the number as printed, with its spread.
        part: where; None for the only part.
    """

    method: str
    measure: str
    text: str
    part: str | None = None
