"""Look at a run from outside: are weights on their constraints, is the temperature right, do chains agree?

`violation`, `cotangency` and `kinetic_temperature` measure now, a `Monitor` records over time and reports.
`coupled` bounds the bias of a step size. The rest judges averages over correlated draws.

Examples:
    >>> model = nn.Linear(3, 2)
    >>> optimizer = cl.CoLod(cl.constrain(model, {"weight": cl.Orthogonal()}), lr=0.1)
    >>> max(cl.diagnostics.violation(optimizer).values()) < 1e-5
    True
"""

from colangevin.diagnostics.chains import (
    Convergence,
    autocorrelation_time,
    convergence,
    standard_error,
    to_arviz,
)
from colangevin.diagnostics.coupling import Coupled, coupled
from colangevin.diagnostics.feasibility import cotangency, violation
from colangevin.diagnostics.monitor import Monitor
from colangevin.diagnostics.plots import plot_run
from colangevin.diagnostics.report import Estimate, GroupReport, Report
from colangevin.diagnostics.temperature import kinetic_temperature

__all__ = [
    "Convergence",
    "Coupled",
    "Estimate",
    "GroupReport",
    "Monitor",
    "Report",
    "autocorrelation_time",
    "convergence",
    "cotangency",
    "coupled",
    "kinetic_temperature",
    "plot_run",
    "standard_error",
    "to_arviz",
    "violation",
]
