"""Samples of weights: collect, store and average them, predict with them, and judge the predictions."""

from colangevin.sampling.mean import RunningMean
from colangevin.sampling.prediction import Prediction
from colangevin.sampling.quality import Quality, plot_reliability, quality
from colangevin.sampling.samples import Samples

__all__ = ["Prediction", "Quality", "RunningMean", "Samples", "plot_reliability", "quality"]
