"""Change temperature or friction during a run, as `torch.optim.lr_scheduler` changes `lr`.

Anneal to end in a minimum (`Linear`, `Cosine`, `Exponential`), train first and sample then (`Constant`), or
explore and sample in turns (`Cyclical`).

Examples:
    >>> model = nn.Linear(3, 2)
    >>> optimizer = cl.CoLod(model.named_parameters(), lr=0.1, temperature=0.5)
    >>> schedule = cl.schedules.Linear(optimizer, steps=10, end=0.0)
    >>> optimizer.step()
    >>> schedule.step()
    >>> optimizer.param_groups[0]["temperature"]
    0.45
"""

from colangevin.schedules.annealing import Annealing, Constant, Cosine, Exponential, Linear
from colangevin.schedules.base import Schedule
from colangevin.schedules.cyclical import Cyclical

__all__ = ["Annealing", "Constant", "Cosine", "Cyclical", "Exponential", "Linear", "Schedule"]
