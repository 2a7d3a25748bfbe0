"""How good predictions are: accuracy, likelihood and calibration."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colangevin.extras import extra

__all__ = ["Quality", "plot_reliability", "quality"]

_BINS = 15  # as in Guo et al. 2017, "On Calibration of Modern Neural Networks"


@dataclass(frozen=True)
class Quality:
    """Three numbers that say how good predicted probabilities are; `quality` measures them.

    Attributes:
        accuracy: share of data whose most probable class is right.
        nll: mean negative logarithm of the probability of the right class.
        ece: expected calibration error, the distance between mean confidence and accuracy in a bin, averaged
            over bins by the number of their data.

    Examples:
        >>> print(cl.Quality(accuracy=0.95, nll=0.1712, ece=0.021))
        accuracy 95.00%, NLL 0.1712, ECE 0.0210
    """

    accuracy: float
    nll: float
    ece: float

    def __str__(self) -> str:
        return f"accuracy {self.accuracy:.2%}, NLL {self.nll:.4f}, ECE {self.ece:.4f}"


def quality(probabilities: Tensor, labels: Tensor, *, bins: int = _BINS) -> Quality:
    """Judge predicted probabilities: are they right, and does the model know when it is not?

    It measures accuracy, negative log-likelihood and expected calibration error. Average probabilities over
    samples, not logits: `samples.predict(x, transform=torch.nn.Softmax(-1)).mean`.

    Args:
        probabilities: shape (data, classes), or (data,) of the second of two classes.
        labels: classes as whole numbers, shape (data,).
        bins: of confidence, all of one width.

    Returns:
        The three numbers.

    Raises:
        ValueError: for shapes that do not fit, or rows that are not probabilities.

    Examples:
        >>> probabilities = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
        >>> found = cl.quality(probabilities, torch.tensor([0, 1, 1]))
        >>> print(found)
        accuracy 66.67%, NLL 0.4149, ECE 0.3000
    """
    p, labels = _checked(probabilities, labels)
    metrics = extra("torchmetrics.functional.classification", "Judging predictions")
    classes = p.shape[1]
    right = p.gather(1, labels.unsqueeze(1)).squeeze(1)
    return Quality(
        accuracy=float(metrics.multiclass_accuracy(p, labels, classes, average="micro")),
        # clamped: a probability of 0 would make the mean infinite
        nll=float(-right.clamp_min(torch.finfo(p.dtype).tiny).log().mean()),
        ece=float(metrics.multiclass_calibration_error(p, labels, classes, n_bins=bins, norm="l1")),
    )


def plot_reliability(probabilities: Tensor, labels: Tensor, *, bins: int = _BINS) -> Any:
    """Draw accuracy against confidence, to see whether a model is over- or underconfident.

    The bars of calibrated predictions end on the diagonal; below it a model is overconfident.

    Args:
        probabilities: shape (data, classes), or (data,) of the second of two classes.
        labels: classes as whole numbers, shape (data,).
        bins: of confidence.

    Returns:
        A matplotlib figure, which belongs to no window.

    Raises:
        ValueError: for shapes that do not fit, or rows that are not probabilities.

    Examples:
        >>> probabilities = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
        >>> figure = cl.plot_reliability(probabilities, torch.tensor([0, 1, 1]))
        >>> figure.axes[0].get_xlabel()
        'confidence'
    """
    p, labels = _checked(probabilities, labels)
    confidence, predicted = p.max(1)
    place = (confidence * bins).long().clamp_max(bins - 1)
    counts = torch.bincount(place, minlength=bins)
    right = torch.bincount(place, weights=(predicted == labels).to(p.dtype), minlength=bins) / counts
    found = quality(p, labels, bins=bins)
    figure = extra("matplotlib.figure", "A reliability plot").Figure(figsize=(4.5, 4.5), layout="constrained")
    axis = figure.subplots()
    centres = (torch.arange(bins) + 0.5) / bins
    shown = counts > 0
    axis.bar(centres[shown].tolist(), right[shown].tolist(), width=1 / bins, edgecolor="black")
    axis.plot([0, 1], [0, 1], linestyle="--", color="black", linewidth=1)
    axis.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", title=str(found))
    return figure


def _checked(probabilities: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities of all classes in float64, and labels, on the CPU."""
    p = probabilities.detach().double().cpu()
    if p.dim() == 1:
        p = torch.stack((1 - p, p), dim=1)
    if p.dim() != 2 or labels.shape != p.shape[:1]:
        raise ValueError(
            f"probabilities of shape {tuple(probabilities.shape)} and labels of shape "
            f"{tuple(labels.shape)}: must be (data, classes) and (data,)."
        )
    if not bool(((p >= 0) & (p <= 1)).all()) or not bool(((p.sum(1) - 1).abs() < 1e-3).all()):
        raise ValueError(
            "probabilities: some are outside of [0, 1] or do not sum to 1. Logits need a softmax before they "
            "are averaged: samples.predict(x, transform=torch.nn.Softmax(-1))."
        )
    return p, labels.cpu().long()
