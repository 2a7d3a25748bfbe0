"""Methods of this library that are newer than those it is compared with earlier versions on.

Adam along constraints, spheres of the norms that weights start with, and weights in channels last.
"""

from collections.abc import Callable

import torch
from torch import Tensor

import colangevin as cl
from benchmarks.contender import LR, MOMENTUM, Contender, Run, optimizer_run
from benchmarks.ours import RADIUS, TEMPERATURE

__all__ = ["ADAM", "CHANNELS_LAST", "KEPT_NORMS"]

Make = Callable[[list[dict[str, object]]], torch.optim.Optimizer]


def _adam(groups: list[dict[str, object]]) -> torch.optim.Optimizer:
    return cl.ConstrainedAdam(groups, lr=1e-3)


def _sgd(groups: list[dict[str, object]], temperature: float = 0.0) -> torch.optim.Optimizer:
    return cl.ConstrainedSGD(groups, lr=LR, momentum=MOMENTUM, temperature=temperature, seed=0)


def _noisy(groups: list[dict[str, object]]) -> torch.optim.Optimizer:
    return _sgd(groups, TEMPERATURE)


def _contender(
    method: str, make: Make, constraint: cl.Constraint, words: int, *, channels_last: bool = False
) -> Contender:
    """A method that constrains weights of at least two dimensions each for itself, and leaves others free."""

    def built(weights: list[Tensor], size: float) -> Run:
        if channels_last:
            weights = [each.detach().to(memory_format=torch.channels_last) for each in weights]
        held = [
            {"params": [w], "constraint": constraint} if w.dim() > 1 else {"params": [w]} for w in weights
        ]
        return optimizer_run(make(held), weights, size)

    return Contender(method, "colangevin", built, words, ("graph",))


ADAM = (
    _contender("Adam, free", _adam, cl.Free(), 7),
    _contender("Adam, circle", _adam, cl.Circle(RADIUS), 8),
    _contender("Adam, norms of rows kept", _adam, cl.Sphere(), 7),
    _contender("Adam, norms of weights kept", _adam, cl.Sphere(over="matrix"), 14),
    _contender("Adam, sphere with slack", _adam, cl.Sphere(RADIUS), 9),
)
KEPT_NORMS = (
    _contender("norms of rows kept", _sgd, cl.Sphere(), 5),
    _contender("norms of weights kept", _sgd, cl.Sphere(over="matrix"), 8),
)
CHANNELS_LAST = (
    _contender("circle, noise", _noisy, cl.Circle(RADIUS), 6),
    _contender("circle, noise, channels last", _noisy, cl.Circle(RADIUS), 6, channels_last=True),
    _contender("norms of filters kept, noise, channels last", _noisy, cl.Sphere(), 5, channels_last=True),
)
