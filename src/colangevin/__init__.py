"""Neural-network weights that obey constraints while they train or sample."""

from colangevin import diagnostics, schedules
from colangevin.constraints import (
    Affine,
    Circle,
    Constraint,
    Free,
    Implicit,
    NonNegative,
    Orthogonal,
    Simplex,
    Sphere,
    Symmetric,
)
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
    "Affine",
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
    "NonNegative",
    "Orthogonal",
    "Prediction",
    "Quality",
    "Replicas",
    "RunningMean",
    "Samples",
    "SamplesError",
    "Simplex",
    "Sphere",
    "SplittingError",
    "Symmetric",
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
