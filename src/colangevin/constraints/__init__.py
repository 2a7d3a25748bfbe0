"""Constraints on weights: immutable values that say which manifold a weight is held on."""

from colangevin.constraints.affine import Affine
from colangevin.constraints.circle import Circle
from colangevin.constraints.constraint import Constraint
from colangevin.constraints.free import Free
from colangevin.constraints.implicit import Implicit
from colangevin.constraints.manifold import Manifold
from colangevin.constraints.nonnegative import NonNegative
from colangevin.constraints.orthogonal import Orthogonal
from colangevin.constraints.simplex import Simplex
from colangevin.constraints.sphere import Sphere
from colangevin.constraints.symmetric import Symmetric

__all__ = [
    "Affine",
    "Circle",
    "Constraint",
    "Free",
    "Implicit",
    "Manifold",
    "NonNegative",
    "Orthogonal",
    "Simplex",
    "Sphere",
    "Symmetric",
]
