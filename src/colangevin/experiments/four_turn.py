"""One training on the 4-turn spiral: SGD, or o-CoLod with orthogonal hidden-to-hidden weights.

The problem is that of Leimkuhler et al. 2021, Fig. 4 and Appendix D.1. Within a run both methods see the
same data, the same batches and the same initial weights where these are not constrained.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Optimizer

import colangevin as cl
from colangevin.experiments.mlp import MLP
from colangevin.experiments.spirals import four_turn_spiral
from colangevin.experiments.train import evaluate, train

__all__ = ["GRID_EDGE", "METHODS", "Job", "Outcome", "run", "training_points"]

#: the methods compared, the slower one first: its jobs should not be what is left over at the end
METHODS = ("o-CoLod", "SGD")

STEP_SIZE = 0.1
TRAIN_POINTS = 500
TEST_POINTS = 1000
BATCH_SIZE = 25

#: logits are taken on [-GRID_EDGE, GRID_EDGE] squared, which holds the spiral of radius 2
GRID_EDGE = 2.2
GRID_POINTS = 221


@dataclass(frozen=True)
class Job:
    """One training: which method, which run (its seed), how deep a network and for how long."""

    method: str
    run: int
    depth: int
    epochs: int


@dataclass(frozen=True)
class Outcome:
    """What one training came to, as plain values that travel between processes.

    Attributes:
        job: what was trained.
        accuracy: fraction of the test points classified correctly.
        loss: mean binary cross entropy of the test points.
        violation: largest entry of |W W^T - I| over the constrained weights; None without any.
        logits: of the classifier on a square grid of the plane, one list a row, from below.
    """

    job: Job
    accuracy: float
    loss: float
    violation: float | None
    logits: list[list[float]]


def training_points(run: int) -> tuple[Tensor, Tensor]:
    """The training data of a run, points and labels."""
    return four_turn_spiral(TRAIN_POINTS, generator=_data_generator(run))


def _data_generator(run: int) -> torch.Generator:
    """Source of a run's training points, test points and batches, in this order."""
    # odd, where initial weights have even seeds: points must not be copies of weights
    return torch.Generator().manual_seed(2 * run + 1)


def run(job: Job, after_epoch: Callable[[int], None] | None = None) -> Outcome:
    """Train one classifier and measure it.

    Args:
        job: what to train.
        after_epoch: called with the number of epochs done so far.

    Returns:
        The measurements.
    """
    generator = _data_generator(job.run)
    training = four_turn_spiral(TRAIN_POINTS, generator=generator)
    test = four_turn_spiral(TEST_POINTS, generator=generator)
    torch.manual_seed(2 * job.run)
    model = MLP(job.depth)
    optimizer = _optimizer(job.method, model)
    train(
        model,
        optimizer,
        training,
        epochs=job.epochs,
        batch_size=BATCH_SIZE,
        generator=generator,
        after_epoch=after_epoch,
    )
    accuracy, loss = evaluate(model, test)
    violation = None
    if isinstance(optimizer, cl.CoLod):
        violation = max(cl.diagnostics.violation(optimizer).values())
    return Outcome(job, accuracy, loss, violation, _grid_logits(model))


def _optimizer(method: str, model: MLP) -> Optimizer:
    if method == "SGD":
        return torch.optim.SGD(model.parameters(), lr=STEP_SIZE)
    groups = cl.constrain(model, {name: cl.Orthogonal() for name in model.square_weights})
    return cl.CoLod(groups, lr=STEP_SIZE)


@torch.no_grad()
def _grid_logits(model: MLP) -> list[list[float]]:
    axis = torch.linspace(-GRID_EDGE, GRID_EDGE, GRID_POINTS)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    logits: list[list[float]] = model(torch.stack((x, y), dim=-1)).tolist()
    return logits
