"""A network under every kind of constraint, data in a fixed order, and an optimizer with noise."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import colangevin as cl

RULES = {
    "0.weight": cl.Circle(1.0),
    "2.weight": cl.Sphere(2.0),
    "4.weight": cl.Orthogonal(),
    "6.weight": cl.Sphere(1.0, slack=False),
}
TEMPERATURE = 1e-3

#: what Lightning warns of in trainings that are as small as these
LIGHTNING_WARNINGS = [
    # of torch, about what Lightning does to batches
    pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated"),
    # the loaders here need no worker
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    # and batches are few
    pytest.mark.filterwarnings("ignore:The number of training batches"),
]


def network(seed=0):
    torch.manual_seed(seed)
    layers = [
        nn.Linear(4, 6),
        nn.Tanh(),
        nn.Linear(6, 5),
        nn.Tanh(),
        nn.Linear(5, 5),
        nn.Tanh(),
        nn.Linear(5, 3),
    ]
    return nn.Sequential(*layers)


def dynamics(model, **options):
    """CoLud above temperature 0, whose noise comes from a seed that is stored with its state."""
    options = {"lr": 0.1, "friction": 1.0, "temperature": TEMPERATURE, **options}
    return cl.CoLud(cl.constrain(model, RULES), **options)


def batches(count=6, size=4):
    """A loader without shuffling."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count * size, 4, generator=generator)
    y = torch.randint(3, (count * size,), generator=generator)
    return DataLoader(TensorDataset(x, y), batch_size=size)


def weights(model):
    """Copies of all parameters."""
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(one, other):
    """Whether two lists of tensors are equal bit for bit."""
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def worst_violation(model):
    """The largest violation of a constraint by the weights of a model."""
    return max(
        constraint.violation(dict(model.named_parameters())[name]) for name, constraint in RULES.items()
    )
