"""Predictions of many weights for one architecture."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from colangevin.sampling.memory import Weights

__all__ = ["Prediction", "predict"]


@dataclass(frozen=True)
class Prediction:
    """Outputs of every sample, of shape (chains, samples, batch, ...)."""

    samples: Tensor

    @property
    def mean(self) -> Tensor:
        """Over chains and samples, shape (batch, ...)."""
        return self.samples.mean((0, 1))

    @property
    def variance(self) -> Tensor:
        """Over chains and samples, shape (batch, ...); NaN for a single sample."""
        flat = self.samples.flatten(0, 1)
        if len(flat) == 1:
            return torch.full_like(flat[0], torch.nan)
        return flat.var(0)


@torch.no_grad()
def predict(
    model: nn.Module,
    samples: Iterable[Weights],
    inputs: tuple[Tensor, ...],
    transform: Callable[[Tensor], Tensor] | None,
    *,
    chunk: int,
    stacked: bool,
) -> Prediction:
    """Run a model with each of many weights.

    Args:
        model: the architecture.
        samples: weights by name.
        inputs: a batch.
        transform: of the outputs.
        chunk: how many samples run at once.
        stacked: whether a sample is a stack of chains.

    Returns:
        The outputs.
    """

    def run(weights: Weights) -> Tensor:
        output: Tensor = functional_call(model, weights, inputs)
        return output if transform is None else transform(output)

    device = inputs[0].device
    outputs = []
    every = vmap(vmap(run)) if stacked else vmap(run)
    remaining = iter(samples)
    with _evaluating(model):
        while several := list(islice(remaining, chunk)):
            here = [{name: tensor.to(device) for name, tensor in each.items()} for each in several]
            if len(here) == 1 and not stacked:
                outputs.append(run(here[0]).unsqueeze(0))
            else:
                outputs.append(every({name: torch.stack([each[name] for each in here]) for name in here[0]}))
    found = torch.cat(outputs)
    return Prediction(found.transpose(0, 1) if stacked else found.unsqueeze(0))


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while, for every module as far as it was not in it."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
