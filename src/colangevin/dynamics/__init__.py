"""How a step moves: the splitting grammar, its three letters, and the over- and underdamped steps."""

from colangevin.dynamics.overdamped import Overdamped
from colangevin.dynamics.underdamped import Underdamped

__all__ = ["Dynamics", "Overdamped", "Underdamped"]

#: what the options of a group stand for
Dynamics = Overdamped | Underdamped
