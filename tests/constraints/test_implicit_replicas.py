"""Replicas under a general constraint move, and fail, as they would alone."""

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

import colangevin as cl
from colangevin.optim.base import ConstrainedOptimizer
from tests.constraints.implicit_functions import HARD, ellipsoid, figure_eight, inside_a_disc
from tests.constraints.implicit_runs import assert_unchanged, everything, normal, run_noisily


def replica_groups(name: str, replicas: int) -> tuple[Tensor, list[Tensor]]:
    weights = []
    g, shape = HARD[name]
    for seed in range(replicas):
        weights.append(cl.Implicit(g).init_(normal(80 + seed, *shape)))
    return torch.stack(weights), weights


@pytest.mark.parametrize("method", ["colod", "colud"])
def test_replicas_move_as_they_would_alone(method: str) -> None:
    stack, weights = replica_groups("ellipsoid", 3)
    constraint = cl.Implicit(ellipsoid)

    def make(parameter: Parameter, replicas: int) -> ConstrainedOptimizer:
        group = {"params": [parameter], "constraint": constraint, "replicas": replicas}
        if method == "colod":
            return cl.CoLod([group], lr=0.1)
        return cl.CoLud([group], lr=0.1, friction=0.5)

    together = Parameter(stack.clone())
    alone = [Parameter(weight.clone()) for weight in weights]
    optimizers = [make(together, 3), *(make(parameter, 0) for parameter in alone)]
    for step in range(10):
        together.grad = normal(90 + step, *stack.shape)
        for parameter, grad in zip(alone, together.grad, strict=True):
            parameter.grad = grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(together.detach(), torch.stack([parameter.detach() for parameter in alone]))


def test_replicas_with_noise_go_separate_ways_on_one_manifold() -> None:
    weight = cl.Implicit(inside_a_disc).init_(normal(95, 2))
    parameter = Parameter(torch.stack([0.5 * weight] * 3))
    group = {
        "params": [parameter],
        "constraint": cl.Implicit(inside_a_disc, inequality=True),
        "replicas": 3,
    }
    optimizer = cl.CoLud([group], lr=0.1, friction=1.0, temperature=0.1, seed=11)
    run_noisily(optimizer, 50, 1e-14)
    distances = torch.pdist(parameter.detach())
    assert float(distances.min()) > 0.01
    assert float(parameter.detach().norm(dim=1).max()) <= 1 + 1e-15
    assert optimizer.state[parameter]["position"].shape == (3, 3)


def test_one_replica_that_cannot_land_stops_all() -> None:
    """One of three stands where the curve crosses itself."""
    safe = cl.Implicit(figure_eight).init_(torch.tensor([0.9, 0.2], dtype=torch.float64))
    parameter = Parameter(torch.stack((safe, torch.zeros(2, dtype=torch.float64), safe)))
    group = {"params": [parameter], "constraint": cl.Implicit(figure_eight), "replicas": 3}
    optimizer = cl.CoLud([group], lr=0.1, friction=1.0)
    parameter.grad = normal(96, 3, 2)
    before = everything(optimizer)
    with pytest.raises(cl.ConvergenceError, match="rank 0 for 1 components"):
        optimizer.step()
    assert_unchanged(optimizer, before)
