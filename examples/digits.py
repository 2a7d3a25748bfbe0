"""A perceptron on scikit-learn's digits whose weights are bounded: what the examples of a search train."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import colangevin as cl

__all__ = ["Choice", "judged", "train"]

SPLIT = (1000, 400, 397)  # to train with, to choose by, and to judge the choice
BATCH = 100


@dataclass(frozen=True)
class Choice:
    """What a search is to choose.

    Attributes:
        lr: of `CoLud`, the paper's h.
        radius: the bound of the weights, in multiples of the largest weight that `nn.Linear` starts with.
        friction: of `CoLud`.
    """

    lr: float
    radius: float
    friction: float


@cache
def data() -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Images and labels, each in three parts."""
    pixels, classes = load_digits(return_X_y=True)
    order = torch.randperm(len(classes), generator=torch.Generator().manual_seed(0))
    x, y = torch.from_numpy(pixels).float()[order] / 16, torch.from_numpy(classes).long()[order]
    return x.split(SPLIT), y.split(SPLIT)


def train(choice: Choice, epochs: int) -> Iterator[tuple[nn.Module, float]]:
    """Train a network.

    Args:
        choice: what it is trained with.
        epochs: passes over the training set.

    Yields:
        The network and its share of right answers on the validation set, after every epoch.
    """
    (x, x_valid, _), (y, y_valid, _) = data()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, 10))
    # nn.Linear draws from within 1 / sqrt(inputs)
    rules = {
        name: cl.Circle(choice.radius / math.sqrt(layer.in_features))
        for name, layer in (("0.weight", model[0]), ("2.weight", model[2]))
    }
    groups = cl.constrain(model, rules)
    optimizer = cl.CoLud(groups, lr=choice.lr, friction=choice.friction)
    for _ in range(epochs):
        for batch in torch.randperm(len(y)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
        yield model, accuracy(model, x_valid, y_valid)


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The share of right answers."""
    return float((model(x).argmax(1) == y).float().mean())


def judged(choice: Choice, epochs: int) -> float:
    """Train once more, and judge by the part of the data that no choice has seen.

    Args:
        choice: what a search has found.
        epochs: passes over the training set.

    Returns:
        The share of right answers.
    """
    *_, (model, _) = train(choice, epochs)
    (*_, x), (*_, y) = data()
    return accuracy(model, x, y)
