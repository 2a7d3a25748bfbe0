"""Cotangency is relative to the momentum, however small that is."""

import pytest
import torch

import colangevin as cl
from tests.optim_db import ConstraintCase, by_id, each_constraint, start, train


@each_constraint
@pytest.mark.parametrize("speed", [1e-300, 1e-200, 1e-30, 1.0])
def test_cotangency_does_not_depend_on_the_size_of_a_momentum(
    constraint: ConstraintCase, speed: float
) -> None:
    """A large friction leaves momenta whose squares are 0."""
    problem, opt = start(by_id("colud-OBA"), constraint, torch.float64)
    train(problem, opt, 2)
    before = cl.diagnostics.cotangency(opt)["weight"]
    opt.state[problem.weight]["momentum"].mul_(speed)
    assert cl.diagnostics.cotangency(opt)["weight"] == pytest.approx(before, rel=0.1, abs=1e-15)
