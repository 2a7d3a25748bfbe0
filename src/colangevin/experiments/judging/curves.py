"""Curves over training: how they are shown, and the measures that they come to."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colangevin.experiments.catalogue.measures import MEASURES

__all__ = ["CURVES", "best_of_curves", "from_curves"]

Array = NDArray[Any]

#: title and factor of every curve that is drawn over training
CURVES = {
    "total_variation": ("total variation from HMC", 1),
    "agreement": ("agreement with HMC, %", 100),
    "test_accuracy": ("test accuracy, %", 100),
    "validation_bits": ("validation, bits a byte", 1),
    "test_bits": ("test, bits a byte", 1),
    "validation_loss": ("validation loss", 1),
    "test_loss": ("test loss", 1),
    "train_accuracy": ("train accuracy, %", 100),
    "train_loss": ("train loss", 1),
    "validation_accuracy": ("validation accuracy, %", 100),
    "calibration_error": ("expected calibration error", 1),
    "weight_norm": ("norm of all weights", 1),
    "first_temperature": ("kinetic temperature of the first kernel over that of the noise", 1),
    "largest_output_weight": ("largest output weight", 1),
    "largest_first_weight": ("largest first weight", 1),
    "violation": ("violation of the constraint", 1),
    "fallbacks": ("polar factors taken so far", 1),
    "hidden_norm": ("root mean square of the norms of hidden rows", 1),
    "norm_gain_change": ("largest change of a norm's gain", 1),
}


def from_curves(curves: Mapping[str, Array]) -> dict[str, Array]:
    """The measures that curves over training come to.

    Args:
        curves: of shape (points, methods, runs) by name.

    Returns:
        Numbers of shape (methods, runs) by measure.
    """
    last = {name.replace("_", " "): curve[-1] for name, curve in curves.items()}
    shown = {name: value for name, value in last.items() if name in MEASURES}
    return {
        **{name: 100 * value if MEASURES[name].unit == "%" else value for name, value in shown.items()},
        "test accuracy over training": 100 * curves["test_accuracy"].mean(0),
        "rise of the test loss": last["test loss"] - curves["test_loss"].min(0),
    }


def best_of_curves(curves: Mapping[str, Array]) -> dict[str, Array]:
    """The best values of loss and accuracy at any point of a training.

    Args:
        curves: of shape (points, methods, runs) by name.

    Returns:
        Numbers of shape (methods, runs) by measure. With validation data, the test loss is that at the point
        of the lowest validation loss.
    """
    test = curves["test_loss"]
    if "validation_loss" not in curves:
        return {
            "highest test accuracy": 100 * curves["test_accuracy"].max(0),
            "lowest test loss": test.min(0),
        }
    chosen = curves["validation_loss"].argmin(0)[None]
    return {
        "lowest validation loss": curves["validation_loss"].min(0),
        "test loss at the lowest validation loss": np.take_along_axis(test, chosen, axis=0)[0],
    }
