"""Diagnostics of a run: violations and temperatures now, and a monitor that records them over time."""

from colangevin.diagnostics.chains import (
    Convergence,
    autocorrelation_time,
    convergence,
    standard_error,
    to_arviz,
)
from colangevin.diagnostics.feasibility import cotangency, violation
from colangevin.diagnostics.monitor import Monitor
from colangevin.diagnostics.plots import plot_run
from colangevin.diagnostics.report import Estimate, GroupReport, Report
from colangevin.diagnostics.temperature import kinetic_temperature

__all__ = [
    "Convergence",
    "Estimate",
    "GroupReport",
    "Monitor",
    "Report",
    "autocorrelation_time",
    "convergence",
    "cotangency",
    "kinetic_temperature",
    "plot_run",
    "standard_error",
    "to_arviz",
    "violation",
]
