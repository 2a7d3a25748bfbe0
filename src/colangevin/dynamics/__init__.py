"""How a step moves: over- and underdamped, with splittings and their three letters, and preconditioned."""

from colangevin.dynamics.langevin import Langevin
from colangevin.dynamics.overdamped import Overdamped
from colangevin.dynamics.preconditioned import Adam, Muon, Preconditioned
from colangevin.dynamics.underdamped import Underdamped

__all__ = ["MOMENTS", "Adam", "Dynamics", "Langevin", "Muon", "Overdamped", "Preconditioned", "Underdamped"]

#: what the options of a group stand for
Dynamics = Overdamped | Underdamped | Adam | Muon
#: what steps keep in the state beside the position, in the coordinates of q; each names its own in ``kept``
MOMENTS = ("momentum", "second_moment")
