"""Samples: collected, stored, averaged, and used to predict."""

from colangevin.sampling.mean import RunningMean
from colangevin.sampling.prediction import Prediction
from colangevin.sampling.samples import Samples

__all__ = ["Prediction", "RunningMean", "Samples"]
