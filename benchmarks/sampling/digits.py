"""The posterior of a small network on scikit-learn's digits, with circles on its weights.

Nobody knows its averages exactly, so a row tells how fast its chains move and whether they agree.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import colangevin as cl
from benchmarks.sampling.samplers import Chains, stepping

__all__ = ["POSTERIOR", "SAMPLERS", "Posterior"]

_TRAIN, _BATCH, _HIDDEN = 1000, 100, 100
# With radius 1 a chain forgets within a thousand steps, which no short run averages over; here within thirty.
_RADIUS = 0.3
_LR, _FRICTION = 0.3, 0.3
_DESCENT, _SETTLING = 500, 1500  # steps without noise, then with it, that precede a run
_EVERY = 10  # steps between two observations


@dataclass(frozen=True)
class Posterior:
    """A law without an exact average; what is observed is the loss on the images that were held out."""

    name: str
    exact: None = None


POSTERIOR = Posterior("digits, a perceptron on circles, loss held out")


def _build() -> nn.Module:
    return nn.Sequential(nn.Linear(64, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 10))


def _images() -> tuple[Tensor, Tensor]:
    from sklearn.datasets import load_digits

    pixels, classes = load_digits(return_X_y=True)
    order = torch.randperm(len(classes), generator=torch.Generator().manual_seed(0))
    return torch.from_numpy(pixels).float()[order] / 16, torch.from_numpy(classes).long()[order]


def _begin(posterior: Posterior, chains: int) -> Chains:
    """One chain is a plain module; several are a batched one."""
    x, y = _images()
    rules = {"*.weight": cl.Circle(_RADIUS)}
    torch.manual_seed(0)
    if chains == 1:
        model = _build()
        groups = cl.constrain(model, rules)
    else:
        model = cl.Replicas(_build, chains, seed=0)
        groups = model.constrain(rules)
    optimizer = cl.CoLud(groups, _LR, friction=_FRICTION, temperature=0.0, splitting="BAOAB", seed=0)

    def losses(rows: Tensor | slice) -> Tensor:
        labels = y[rows].expand(chains, -1)
        logits = model(x[rows]).view(labels.numel(), 10)
        return cross_entropy(logits, labels.flatten(), reduction="none").view_as(labels).mean(1)

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            losses(torch.randint(_TRAIN, (_BATCH,))).sum().backward()
            optimizer.step()

    @torch.no_grad()
    def observe() -> Tensor:
        return losses(slice(_TRAIN, None)).double()

    steps(_DESCENT)
    for group in optimizer.param_groups:
        group["temperature"] = cl.posterior_temperature(_TRAIN)
    steps(_SETTLING)
    return partial(steps, _EVERY), observe


SAMPLERS = (
    stepping("colangevin", "CoLud, BAOAB", 1, _begin),
    stepping("colangevin", "CoLud, BAOAB", 16, _begin),
)
