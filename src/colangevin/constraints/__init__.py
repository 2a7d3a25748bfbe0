"""Constraints on weights: immutable values that say which manifold a weight is held on."""

from colangevin.constraints.circle import Circle
from colangevin.constraints.constraint import Constraint
from colangevin.constraints.free import Free
from colangevin.constraints.implicit import Implicit
from colangevin.constraints.manifold import Manifold
from colangevin.constraints.orthogonal import Orthogonal
from colangevin.constraints.sphere import Sphere

__all__ = ["Circle", "Constraint", "Free", "Implicit", "Manifold", "Orthogonal", "Sphere"]
