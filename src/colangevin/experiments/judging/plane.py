r"""Classifiers in the plane: pictures, curvature of the decision boundary, gradients of the prediction.

The boundary is the contour on which the predicted probability is one half, on a grid of 1000 by 1000
points. The points along it are samples of a curve :math:`(x(t), y(t))`; with central differences

.. math:: \kappa = \frac{|x'' y' - x' y''|}{(x'^2 + y'^2)^{3/2}}

(Leimkuhler et al. 2021, Appendix D.3).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from contourpy import contour_generator
from numpy.typing import NDArray
from torch import Tensor, nn

import colangevin as cl

__all__ = ["EDGES", "LEVELS", "curvature", "look", "measure"]

Array = NDArray[Any]

#: half the side of the square that is looked at, by data set; a little larger than the spiral
EDGES = {"two-turn": 1.2, "four-turn": 2.2}

GRID = 1000
PICTURE = 100
#: shades of a picture
LEVELS = 16

# Points evaluated at a time: on the CPU the activations of 500 units should stay near the cache.
_POINTS = {"cpu": 1 << 12, "cuda": 1 << 18}


def _square(edge: float, points: int, device: torch.device) -> Tensor:
    """A square grid, rows from below, shape (points², 2)."""
    axis = torch.linspace(-edge, edge, points, device=device)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    return torch.stack((x, y), dim=-1).view(-1, 2)


@torch.no_grad()
def _probability(model: nn.Module, points: Tensor) -> Array:
    """Of the second class, at every point."""
    logits = torch.cat([model(part) for part in points.split(_POINTS[points.device.type])])
    probability: Array = logits.squeeze(-1).double().sigmoid().cpu().numpy()
    return probability


def look(models: cl.Replicas, methods: int, edge: float) -> dict[str, Array]:
    """Pictures of every classifier.

    Args:
        models: the classifiers, all runs of the first method first.
        methods: how many there are.
        edge: half the side of the square.

    Returns:
        ``picture``, the probability in :data:`LEVELS` shades, shape (methods, runs, rows, columns).
    """
    points = _square(edge, PICTURE, _device(models))
    pictures = []
    for copy in range(len(models)):
        probability = np.nan_to_num(_probability(models[copy], points), nan=0.5)
        pictures.append(np.rint(probability * (LEVELS - 1)).astype(np.uint8).reshape(PICTURE, PICTURE))
    return {"picture": _by_method(methods, pictures)}


def measure(
    models: cl.Replicas, methods: int, edge: float, progress: Callable[[int, int], None]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Curvature of every boundary and gradients of every prediction along the axes.

    Args:
        models: the classifiers, all runs of the first method first.
        methods: how many there are.
        edge: half the side of the square.
        progress: told how many classifiers are done, and of how many.

    Returns:
        Numbers of shape (methods, runs) by name, and the gradients along y = 0 and x = 0 over the runs of
        each method, ``gradient_mean`` and ``gradient_std`` of shape (methods, 2, points).
    """
    device = _device(models)
    axis = torch.linspace(-edge, edge, GRID, device=device)
    zero = torch.zeros_like(axis)
    lines = torch.cat([torch.stack((axis, zero), dim=-1), torch.stack((zero, axis), dim=-1)])
    points = _square(edge, GRID, device)
    places = axis.double().cpu().numpy()
    rows, slopes = [], []
    for copy in range(len(models)):
        model = models[copy]
        kappa = _boundary_curvature(places, _probability(model, points).reshape(GRID, GRID))
        slope = np.abs(np.gradient(_probability(model, lines).reshape(2, GRID), places, axis=1))
        slopes.append(slope)
        rows.append((len(kappa), *_moments(kappa), slope.max()))
        progress(copy + 1, len(models))
    names = ("curvature points", "curvature", "curvature std", "curvature max", "sharpest transition")
    numbers = {
        name: _by_method(methods, list(column))
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    gradients = _by_method(methods, slopes)
    curves = {"gradient_mean": gradients.mean(1), "gradient_std": gradients.std(1)}
    return numbers, {name: values.astype(np.float32) for name, values in curves.items()}


def _moments(kappa: Array) -> tuple[float, float, float]:
    """Mean, standard deviation and maximum; NaN where there is no boundary."""
    if not len(kappa):
        return np.nan, np.nan, np.nan
    return float(kappa.mean()), float(kappa.std()), float(kappa.max())


def _boundary_curvature(places: Array, probability: Array) -> Array:
    """Curvature at all points of the contour where the probability is one half."""
    if not np.isfinite(probability).all():
        return np.empty(0)
    lines = contour_generator(places, places, probability).lines(0.5)
    return np.concatenate([np.empty(0), *(curvature(np.asarray(line)) for line in lines)])


def curvature(points: Array) -> Array:
    """Curvature along a polygonal line.

    Args:
        points: shape (n, 2), in order.

    Returns:
        The curvature at its points, but for those where the line turns back onto itself.
    """
    if len(points) < 3:
        return np.empty(0)
    first = np.gradient(points, axis=0)
    second = np.gradient(first, axis=0)
    speed = (first**2).sum(1)
    bend = np.abs(second[:, 0] * first[:, 1] - first[:, 0] * second[:, 1])
    moving = speed > 0
    kappa: Array = bend[moving] / speed[moving] ** 1.5
    return kappa


def _device(models: cl.Replicas) -> torch.device:
    return next(models.parameters()).device


def _by_method(methods: int, values: list[Any]) -> Array:
    """From a list over copies to (methods, runs, ...)."""
    array: Array = np.stack(values)
    return array.reshape(methods, -1, *array.shape[1:])
