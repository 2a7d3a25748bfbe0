"""Predictions: a model run with each of many samples of its weights."""

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
    """The outputs of a model for every sample of its weights, with their mean and variance.

    `Samples.predict` returns it. The variance over samples says how unsure the posterior is of an output.

    Attributes:
        samples: the outputs, of shape (chains, samples, batch, ...).

    Examples:
        >>> prediction = cl.Prediction(torch.tensor([[[1.0], [3.0]]]))  # 1 chain, 2 samples, a batch of 1
        >>> prediction.mean
        tensor([2.])
        >>> prediction.variance
        tensor([2.])
    """

    samples: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean over chains and samples, shape (batch, ...)."""
        return self.samples.mean((0, 1))

    @property
    def variance(self) -> Tensor:
        """The variance over chains and samples, shape (batch, ...); NaN for a single sample."""
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
    """Run a model with each of many samples.

    Args:
        model: the architecture.
        samples: weights by name.
        inputs: a batch.
        transform: applied to the outputs.
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
    """Put the modules that are in training mode into evaluation mode for the duration of a `with`."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
