"""Neural-network weights that obey constraints while they train or sample."""

import importlib
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from colangevin import diagnostics, schedules
    from colangevin.replicas import Replicas
    from colangevin.sampling.mean import RunningMean
    from colangevin.sampling.prediction import Prediction
    from colangevin.sampling.quality import Quality, plot_reliability, quality
    from colangevin.sampling.samples import Samples
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

# What training does not need is imported when it is asked for: names, and the modules that have them.
_LATER = {
    "Prediction": "sampling",
    "Quality": "sampling",
    "Replicas": "replicas",
    "RunningMean": "sampling",
    "Samples": "sampling",
    "diagnostics": None,
    "plot_reliability": "sampling",
    "quality": "sampling",
    "schedules": None,
    "suggest": "suggestions",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _LATER[name]
    if module is None:
        return importlib.import_module(f"{__name__}.{name}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
