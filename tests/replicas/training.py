"""Training copies of a model together and apart, under every constraint."""

import torch
from torch import Tensor, nn

import colangevin as cl
from tests.core_only import Columns, Simplex, Symmetric


def plane(weight: Tensor) -> Tensor:
    """The entries of each half of a weight sum to 0."""
    return weight.flatten().view(2, -1).sum(1)


CONSTRAINTS = {
    "free": cl.Free(),
    "circle": cl.Circle(1.0),
    "sphere": cl.Sphere(2.0),
    "sphere-equality": cl.Sphere(1.0, slack=False),
    "orthogonal": cl.Orthogonal(),
    "affine": cl.Affine.mean(0.0),
    "affine-columns": cl.Affine.sum(1.0, over="columns"),
    "implicit": cl.Implicit(plane),
    "implicit-inequality": cl.Implicit(lambda w: w.square().sum() - 9, inequality=True),
}
#: Constraints that define the required methods alone. They hold matrices only, so the CNN has none of them.
CORE = {"core-symmetric": Symmetric(), "core-columns": Columns(1.5), "core-simplex": Simplex()}

TOLERANCES = {torch.float32: 1e-6, torch.float64: 1e-12}
STEPS = 6


def loss(outputs: Tensor) -> Tensor:
    """The loss of one run from (batch, classes), of n runs from (n, batch, classes)."""
    return outputs.sigmoid().flatten(-2).square().mean(-1)


def train_together(replicas: cl.Replicas, optimizer: torch.optim.Optimizer, batches: Tensor) -> None:
    for x in batches:
        optimizer.zero_grad()
        loss(replicas(x, per_replica=True)).sum().backward()
        optimizer.step()


def train_apart(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Tensor, i: int) -> None:
    for x in batches[:, i]:
        optimizer.zero_grad()
        loss(model(x)).backward()
        optimizer.step()


def assert_close(replicas: cl.Replicas, i: int, model: nn.Module, dtype: torch.dtype) -> None:
    for name, tensor in model.state_dict().items():
        worst = float((replicas.state_dict()[name][i] - tensor).abs().max())
        assert worst <= TOLERANCES[dtype], (name, i, worst)
