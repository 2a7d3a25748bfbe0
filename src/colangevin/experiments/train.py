"""The ordinary training loop of a binary classifier, and what is measured on it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim import Optimizer

__all__ = ["evaluate", "train"]


def train(
    model: nn.Module,
    optimizer: Optimizer,
    data: tuple[Tensor, Tensor],
    *,
    epochs: int,
    batch_size: int,
    generator: torch.Generator,
    after_epoch: Callable[[int], None] | None = None,
) -> None:
    """Minimise the mean binary cross entropy over batches drawn without replacement.

    Args:
        model: maps points of shape (batch, 2) to logits of shape (batch,).
        optimizer: of the model's parameters.
        data: points of shape (n, 2) and labels of shape (n,).
        epochs: passes over the data.
        batch_size: points of a step.
        generator: shuffles the data anew in every epoch.
        after_epoch: called with the number of epochs done so far.
    """
    x, y = data
    for epoch in range(1, epochs + 1):
        for batch in torch.randperm(len(x), generator=generator).split(batch_size):
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(model(x[batch]), y[batch]).backward()
            optimizer.step()
        if after_epoch is not None:
            after_epoch(epoch)


@torch.no_grad()
def evaluate(model: nn.Module, data: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """Accuracy and mean loss of a classifier.

    Args:
        model: maps points of shape (n, 2) to logits of shape (n,).
        data: points of shape (n, 2) and labels of shape (n,).

    Returns:
        The fraction of points on the right side of 0, and the mean binary cross entropy.
    """
    x, y = data
    logits = model(x)
    accuracy = ((logits > 0) == (y > 0.5)).double().mean()
    return accuracy.item(), binary_cross_entropy_with_logits(logits, y).item()
