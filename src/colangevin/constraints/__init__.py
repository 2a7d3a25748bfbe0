"""Constraints on weights: immutable values that say which manifold a weight is held on."""

from colangevin.constraints.base import Constraint
from colangevin.constraints.circle import Circle
from colangevin.constraints.free import Free
from colangevin.constraints.implicit import Implicit
from colangevin.constraints.orthogonal import Orthogonal
from colangevin.constraints.sphere import Sphere

__all__ = ["Circle", "Constraint", "Free", "Implicit", "Orthogonal", "Sphere"]
