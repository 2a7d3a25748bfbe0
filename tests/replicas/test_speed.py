"""A hundred runs as replicas take a fifth of their time apart, or less."""

import time

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import colangevin as cl
from colangevin.experiments.data.spirals import two_turn_spiral


def shlp() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 500), nn.ReLU(), nn.Linear(500, 1), nn.Flatten(0))


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 5e-5])
def test_a_hundred_runs_together_are_five_times_as_fast(temperature, capsys):
    """An epoch of C-SGD and of C-SGLD on the 2-turn spiral, 50 steps of 2 points.

    The time of 100 runs apart is 20 times the time of 5.
    """
    runs, alone = 100, 5
    rules = {"0.weight": cl.Circle(1.0), "2.weight": cl.Circle(5.0)}
    data = [two_turn_spiral(100, generator=torch.Generator().manual_seed(i)) for i in range(runs)]
    points, labels = (torch.stack(tensors) for tensors in zip(*data, strict=True))

    def epoch(model, optimizer, x, y, **options) -> float:
        start = time.perf_counter()
        for rows in torch.arange(100).split(2):
            optimizer.zero_grad()
            logits = model(x[..., rows, :], **options)
            binary_cross_entropy_with_logits(logits, y[..., rows], reduction="sum").div(2).backward()
            optimizer.step()
        return time.perf_counter() - start

    def optimizer(groups) -> cl.CoLod:
        return cl.CoLod(groups, lr=0.05, temperature=temperature, seed=0)

    replicas = cl.Replicas(shlp, runs, seed=0)
    together = optimizer(replicas.constrain(rules))
    models = [replicas[i] for i in range(alone)]
    singles = [optimizer(cl.constrain(model, rules)) for model in models]
    seconds, apart = [], []
    for _ in range(4):  # the first warms up
        seconds.append(epoch(replicas, together, points, labels, per_replica=True))
        each = zip(models, singles, points, labels, strict=False)
        apart.append(sum(epoch(*one) for one in each) / alone * runs)
    ratio = min(apart[1:]) / min(seconds[1:])
    with capsys.disabled():
        words = f"an epoch of {runs} runs: {min(seconds):.2f} s together, {min(apart):.2f} s apart"
        print(f"\ntemperature {temperature:g}, {words}, {ratio:.1f} times")
    assert ratio >= 5
