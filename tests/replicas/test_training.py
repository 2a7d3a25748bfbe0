"""Replicas trained together equal the same copies trained apart."""

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.replicas.models import N, batch, cnn, mlp, normed, weights
from tests.replicas.training import (
    CONSTRAINTS,
    CORE,
    STEPS,
    TOLERANCES,
    assert_close,
    train_apart,
    train_together,
)

METHODS = {
    "overdamped": (cl.CoLod, {"lr": 0.05, "temperature": 1e-3}),
    "underdamped": (cl.CoLud, {"lr": 0.2, "friction": 1.0, "temperature": 1e-3}),
    "sgd": (cl.ConstrainedSGD, {"lr": 0.05, "momentum": 0.8, "temperature": 1e-3}),
    "no noise": (cl.CoLud, {"lr": 0.2, "friction": 1.0, "splitting": "BAOAB"}),
}


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("build", "constraint"),
    [
        *((build, name) for build in (mlp, cnn) for name in CONSTRAINTS),
        (normed, "circle"),
        *((mlp, name) for name in CORE),
    ],
)
def test_replicas_trained_together_equal_replicas_trained_apart(build, constraint, method, dtype):
    replicas = cl.Replicas(build, N, seed=3).to(dtype)
    kind, options = METHODS[method]
    # the second layer's weight, square in the MLP and wide in the CNN
    rules = {"0.weight" if build is normed else "2.weight": {**CONSTRAINTS, **CORE}[constraint]}
    optimizer = kind(replicas.constrain(rules), seed=11, **options)
    apart = list(replicas)
    batches = batch(build, STEPS, N, dtype=dtype)
    train_together(replicas, optimizer, batches)
    for i, model in enumerate(apart):
        start = weights(model)
        groups = [{**group, "first_replica": i} for group in cl.constrain(model, rules, init=False)]
        train_apart(model, kind(groups, seed=11, **options), batches, i)
        assert_close(replicas, i, model, dtype)
        moved = max(float((start[name] - w.detach()).abs().max()) for name, w in model.named_parameters())
        assert moved > 100 * TOLERANCES[torch.float32]
    assert max(cl.diagnostics.violation(optimizer).values()) <= 100 * torch.finfo(dtype).eps


def test_noise_differs_between_replicas_that_start_alike():
    stack = nn.Parameter(torch.zeros(N, 4))
    optimizer = cl.CoLod([{"params": [stack], "replicas": N}], lr=0.1, temperature=1.0, seed=0)
    stack.grad = torch.zeros(N, 4)
    optimizer.step()
    assert len(set(stack.detach().flatten().tolist())) == 4 * N
