"""Neural-network weights that obey constraints while they train or sample."""

from colangevin import diagnostics, schedules
from colangevin.constraints import Circle, Constraint, Free, Implicit, Orthogonal, Sphere
from colangevin.errors import (
    ConstraintError,
    ConvergenceError,
    InfeasibleError,
    NonFiniteError,
    SamplesError,
    SplittingError,
)
from colangevin.independence import independent_ranks
from colangevin.optim import (
    CoLod,
    CoLud,
    ConstrainedAdam,
    ConstrainedMuon,
    ConstrainedSGD,
    constrain,
    project_,
)
from colangevin.posterior import posterior_temperature, prior_weight_decay
from colangevin.replicas import Replicas
from colangevin.sampling import Prediction, Quality, RunningMean, Samples, plot_reliability, quality
from colangevin.suggestions import suggest

__version__ = "0.2.0"

__all__ = [
    "Circle",
    "CoLod",
    "CoLud",
    "ConstrainedAdam",
    "ConstrainedMuon",
    "ConstrainedSGD",
    "Constraint",
    "ConstraintError",
    "ConvergenceError",
    "Free",
    "Implicit",
    "InfeasibleError",
    "NonFiniteError",
    "Orthogonal",
    "Prediction",
    "Quality",
    "Replicas",
    "RunningMean",
    "Samples",
    "SamplesError",
    "Sphere",
    "SplittingError",
    "constrain",
    "diagnostics",
    "independent_ranks",
    "plot_reliability",
    "posterior_temperature",
    "prior_weight_decay",
    "project_",
    "quality",
    "schedules",
    "suggest",
]
