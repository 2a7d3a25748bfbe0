"""Schedules of temperature and friction, used like ``torch.optim.lr_scheduler``."""

from colangevin.schedules.annealing import Annealing, Constant, Cosine, Exponential, Linear
from colangevin.schedules.base import Schedule
from colangevin.schedules.cyclical import Cyclical

__all__ = ["Annealing", "Constant", "Cosine", "Cyclical", "Exponential", "Linear", "Schedule"]
