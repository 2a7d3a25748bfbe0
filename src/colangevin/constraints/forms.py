"""Forms: what a fast path has to know of a manifold to move its weights by formulas of its own.

A manifold that has a form promises that its methods are those of the form, element by element. A path that
knows the form then needs none of the methods; a path that does not uses the methods. A subclass does not
inherit a form, so a method that it changes is used on every path.
"""

from dataclasses import dataclass

from colangevin.constraints.radius import Radius
from colangevin.constraints.slices import Slices

__all__ = [
    "BlocksForm",
    "ElementwiseForm",
    "Form",
    "LevelForm",
    "OrthogonalForm",
    "SimplexForm",
    "SphereForm",
    "SquareForm",
]


@dataclass(frozen=True)
class ElementwiseForm:
    """Every element moves alone: on the circle of its radius, or on the line without one."""

    radius: Radius | None


@dataclass(frozen=True)
class SquareForm:
    """Every element moves alone: it is the square of its position, which moves on the line."""


@dataclass(frozen=True)
class SphereForm:
    """Every slice moves alone: on the sphere of its radius, with slack as a last entry if there is one."""

    radius: Radius
    slack: bool
    slices: Slices


@dataclass(frozen=True)
class SimplexForm:
    """Every row moves alone: its entries are the squares of a position on the unit sphere."""


@dataclass(frozen=True)
class LevelForm:
    """Every row moves alone: on the plane of the rows with this mean."""

    mean: float


@dataclass(frozen=True)
class OrthogonalForm:
    """Matrices with orthonormal rows or columns."""


@dataclass(frozen=True)
class BlocksForm:
    """Weights cut along dimension 0 into matrices, each a scale times orthonormal rows or columns."""

    matrices: int
    scale: float


Form = ElementwiseForm | SquareForm | SphereForm | SimplexForm | LevelForm | OrthogonalForm | BlocksForm
