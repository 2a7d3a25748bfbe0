"""Training on digits, and the choice of a learning rate by validation accuracy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from docs.measured.data import Digits, digits

__all__ = ["Method", "accuracy", "at_chosen", "perceptron", "sweep", "train"]


@dataclass(frozen=True)
class Method:
    """A way to train, and the rates to choose from."""

    name: str
    optimizer: Callable[[nn.Sequential, float], Optimizer]
    rates: Sequence[float]


def perceptron(width: int, hidden: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """A perceptron for digits.

    Args:
        width: of every hidden layer.
        hidden: how many hidden layers there are.
        activation: after each of them.

    Returns:
        The model.
    """
    sizes = [64] + [width] * hidden
    layers = [
        layer for inputs, outputs in pairwise(sizes) for layer in (nn.Linear(inputs, outputs), activation())
    ]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def train(
    model: nn.Module,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    *,
    epochs: int,
    scheduler: LRScheduler | None = None,
) -> None:
    """Minimise the cross-entropy on batches of 32.

    Args:
        model: the model.
        optimizer: of its parameters.
        x: images.
        y: labels.
        epochs: how often to go through the data.
        scheduler: stepped after every epoch.
    """
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
        if scheduler is not None:
            scheduler.step()


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The share of correct answers, in per cent."""
    return 100 * (model(x).argmax(1) == y).float().mean().item()


def sweep(
    method: Method,
    build: Callable[[], nn.Sequential],
    seeds: Sequence[int],
    *,
    epochs: int,
    cosine: bool = False,
    scores: Callable[[nn.Sequential, Digits], dict[str, float]] | None = None,
) -> dict[str, Any]:
    """Train with every rate and every seed; choose the rate of the best mean validation accuracy.

    Args:
        method: the method and its rates.
        build: makes a model.
        seeds: of the split, the model and the batches.
        epochs: of every run.
        cosine: whether the rate decays to 0 along a cosine.
        scores: what to measure of a trained model besides its accuracy.

    Returns:
        The chosen rate, and by rate the validation and test accuracies and the scores, a number a seed.
    """
    rates: dict[str, dict[str, list[float]]] = {}
    for rate in method.rates:
        found = rates.setdefault(f"{rate:g}", {})
        for seed in seeds:
            data = digits(seed)
            torch.manual_seed(seed)
            model = build()
            optimizer = method.optimizer(model, rate)
            decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs) if cosine else None
            train(model, optimizer, data.x, data.y, epochs=epochs, scheduler=decay)
            measured = {
                "validation": accuracy(model, data.x_validation, data.y_validation),
                "test": accuracy(model, data.x_test, data.y_test),
                **(scores(model, data) if scores else {}),
            }
            for key, value in measured.items():
                found.setdefault(key, []).append(value)
    chosen = max(rates, key=lambda rate: sum(rates[rate]["validation"]))
    return {"method": method.name, "chosen": chosen, "rates": rates}


def at_chosen(row: dict[str, Any], key: str = "test") -> list[float]:
    """The numbers of a sweep at the chosen rate, one a seed."""
    values: list[float] = row["rates"][row["chosen"]][key]
    return values
