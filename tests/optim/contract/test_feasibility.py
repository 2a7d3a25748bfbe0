"""Every step and every letter stays on the manifold, in every dtype."""

import torch
from torch import Tensor

from colangevin.dynamics.letters import drift, kick, ornstein_uhlenbeck
from tests.optim_db import (
    DTYPES,
    ConstraintCase,
    OptimizerCase,
    each_constraint,
    kept_in,
    start,
    train,
    whole_table,
)


@whole_table
def test_every_step_is_feasible_and_goes_down(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    problem, opt = start(optimizer, constraint, torch.float64)
    before = problem().item()
    train(problem, opt, 12)
    assert problem().item() < before


@whole_table
def test_every_dtype(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    for dtype in DTYPES:
        problem, opt = start(optimizer, constraint, dtype)
        train(problem, opt, 2)
        assert problem.weight.dtype == dtype
        for group in opt.param_groups:
            tensors = [v for p in group["params"] for k, v in opt.state[p].items() if k != "step"]
            assert {t.dtype for t in tensors} <= {kept_in(optimizer.cls, group["constraint"], dtype)}


@each_constraint
def test_every_letter_is_feasible(constraint: ConstraintCase) -> None:
    weight = constraint.weight(torch.float64).unsqueeze(0)
    geometry = constraint.constraint.on(weight.shape[1:])
    g = torch.Generator().manual_seed(3)
    q = geometry.lift(weight)
    p = torch.zeros_like(q)

    def feasible(q: Tensor, p: Tensor) -> bool:
        lowered = geometry.lower(q)
        return bool(geometry.residual(lowered, q) <= 1e-13) and bool(geometry.cotangency(q, p) <= 1e-13)

    assert feasible(q, p)
    for _ in range(10):
        noise = torch.randn(q.shape, generator=g, dtype=q.dtype)
        p = ornstein_uhlenbeck(geometry, q, p, 0.8, 0.6, noise)
        assert feasible(q, p)
        p = kick(geometry, q, p, torch.randn(weight.shape, generator=g, dtype=q.dtype), 0.3)
        assert feasible(q, p)
        q, p = drift(geometry, q, p, 0.3)
        assert feasible(q, p)
    assert (q - geometry.lift(weight)).abs().max() > 0.1
