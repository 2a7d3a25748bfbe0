"""Images, a perceptron with bounded weights, and its posterior at many temperatures in one batched model."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import colangevin as cl
from examples import fashion_mnist

__all__ = ["Images", "Setting", "load", "parser", "sample", "train"]


@dataclass(frozen=True)
class Setting:
    """A data set's sizes and the constraints of its perceptron."""

    train: int
    test: int
    hidden: int
    batch: int
    radii: tuple[float, float]


SETTINGS = {
    "digits": Setting(1000, 797, 100, 100, (1.0, 1.0)),
    # the paper's perceptron and bounds (Leimkuhler et al. 2021, Figure 7)
    "fashion-mnist": Setting(10_000, 10_000, 1000, 128, (0.05, 0.1)),
}


@dataclass(frozen=True)
class Images:
    """Training and test sets, and what they are trained with."""

    name: str
    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor

    @property
    def setting(self) -> Setting:
        """The sizes and constraints that go with the data."""
        return SETTINGS[self.name]

    def build(self) -> nn.Module:
        """A perceptron with one hidden layer."""
        hidden = self.setting.hidden
        return nn.Sequential(nn.Linear(self.x.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, 10))


def load(name: str, device: torch.device) -> Images:
    """A data set; ``"auto"`` is Fashion-MNIST, or scikit-learn's digits where it cannot be had.

    Args:
        name: ``"auto"``, ``"digits"`` or ``"fashion-mnist"``.
        device: where it goes.

    Returns:
        The images, a seeded split of all there are.
    """
    if name == "auto":
        try:
            return load("fashion-mnist", device)
        except OSError:
            return load("digits", device)
    sizes = SETTINGS[name]
    if name == "fashion-mnist":
        x, y = fashion_mnist.read()
    else:
        from sklearn.datasets import load_digits

        pixels, classes = load_digits(return_X_y=True)
        x, y = torch.from_numpy(pixels).float() / 16, torch.from_numpy(classes).long()
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    train, test, _ = order.split([sizes.train, sizes.test, len(y) - sizes.train - sizes.test])
    return Images(name, *(part.to(device) for part in (x[train], y[train], x[test], y[test])))


def parser(module: str) -> argparse.ArgumentParser:
    """A parser of the options that the scripts on images share.

    Args:
        module: the script.

    Returns:
        The parser, to add further words to.
    """
    made = argparse.ArgumentParser(prog=f"python -m {module}")
    made.add_argument("--data", choices=("auto", *SETTINGS), default="auto")
    made.add_argument("--device", default="cpu")
    made.add_argument("--epochs", type=int, default=300)
    made.add_argument("--out", type=Path, help="folder for plots")
    return made


def train(images: Images, copies: int, epochs: int) -> cl.Samples:
    """Train copies of a network with SGD with momentum, all at once; the last weights are the sample.

    Args:
        images: the data.
        copies: how many networks.
        epochs: passes over the training set.

    Returns:
        One sample of as many chains.
    """
    replicas = cl.Replicas(images.build, copies, seed=0).to(images.x.device)
    optimizer = torch.optim.SGD(replicas.parameters(), lr=0.1, momentum=0.8)
    samples = cl.Samples(replicas)
    for _ in range(epochs * _steps(images)):
        optimizer.zero_grad()
        _losses(replicas, images).sum().backward()
        optimizer.step()
    samples.collect()
    return samples


def sample(
    images: Images,
    temperatures: Sequence[float],
    chains: int,
    epochs: int,
    *,
    every: int = 10,
) -> tuple[cl.Samples, cl.diagnostics.Report]:
    """c-CoLud at several temperatures, all chains of all of them in one batched model.

    A third of the run descends at temperature 0, a third settles, and the last third collects.

    Args:
        images: the data.
        temperatures: T of each posterior, 1 being Bayes'.
        chains: how many for each.
        epochs: passes over the training set.
        every: of how many steps one is collected.

    Returns:
        The samples, with the chains of the first temperature first, and the report on the run.
    """
    device = images.x.device
    replicas = cl.Replicas(images.build, len(temperatures) * chains, seed=1).to(device)
    first, last = images.setting.radii
    groups = replicas.constrain({"0.weight": cl.Circle(first), "2.weight": cl.Circle(last)})
    tau = [cl.posterior_temperature(len(images.x), T) for T in temperatures for _ in range(chains)]
    optimizer = cl.CoLud(
        groups,
        lr=0.3,
        friction=1.0,
        temperature=torch.tensor(tau, device=device),
        splitting="BAOAB",
        seed=0,
    )
    third = epochs * _steps(images) // 3
    schedule = cl.schedules.Constant(optimizer, 0.0, third)
    samples = cl.Samples(replicas, every=every, burn_in=2 * third)
    monitor = cl.diagnostics.Monitor(optimizer, every=every, burn_in=2 * third)
    for _ in range(3 * third):
        optimizer.zero_grad()
        _losses(replicas, images).sum().backward()
        monitor.record()
        optimizer.step()
        samples.collect()
        schedule.step()
    return samples, monitor.report()


def _steps(images: Images) -> int:
    """Steps of an epoch."""
    return len(images.x) // images.setting.batch


def _losses(replicas: cl.Replicas, images: Images) -> Tensor:
    """The mean loss of a batch for every copy, the same batch for all."""
    rows = torch.randint(len(images.x), (images.setting.batch,), device=images.x.device)
    logits = replicas(images.x[rows])
    labels = images.y[rows].expand(len(replicas), -1)
    return cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels).mean(1)
