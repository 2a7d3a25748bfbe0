"""How good predicted probabilities are: accuracy, likelihood and calibration, without further libraries."""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Predicted", "judge_predictions"]

_BINS = 15  # as colangevin.quality has it


class Predicted(NamedTuple):
    """What predictions come to.

    Attributes:
        accuracy: share of data whose most probable class is right.
        loss: mean negative logarithm of the probability of the right class.
        calibration_error: distance between confidence and accuracy in a bin of confidence, over all
            bins by their number of data.
    """

    accuracy: float
    loss: float
    calibration_error: float


def judge_predictions(probabilities: Tensor, labels: Tensor) -> Predicted:
    """Judge probabilities as :func:`colangevin.quality` does, which needs the extra ``sampling``.

    Args:
        probabilities: of shape (data, classes).
        labels: classes as whole numbers, of shape (data,).

    Returns:
        The three numbers.
    """
    p, labels = probabilities.detach().double().cpu(), labels.cpu().long()
    confidence, predicted = p.max(1)
    right = (predicted == labels).double()
    # bins are open below and closed above, as torchmetrics has them
    place = ((confidence * _BINS).ceil().long() - 1).clamp(0, _BINS - 1)
    excess = torch.bincount(place, weights=confidence - right, minlength=_BINS)
    own = p.gather(1, labels.unsqueeze(1)).clamp_min(torch.finfo(p.dtype).tiny)
    return Predicted(float(right.mean()), float(-own.log().mean()), float(excess.abs().sum()) / len(p))
