"""Parameter groups: added, with options and noise of their own, and with options changed during a run."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim.contract.cases import NOISY
from tests.optim_db import (
    CONSTRAINTS,
    ConstraintCase,
    OptimizerCase,
    Problem,
    assert_identical,
    by_id,
    check_feasible,
    each_constraint,
    start,
    train,
    whole_table,
)

QUIET = OptimizerCase("quiet", cl.ConstrainedSGD, {"lr": 0.05, "momentum": 0.9, "temperature": 0.0})


@whole_table
def test_group_added_mid_run_does_not_disturb_the_others(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    alone, alone_opt = start(optimizer, constraint)
    train(alone, alone_opt, 4)
    problem, opt = start(optimizer, constraint)
    train(problem, opt, 2)
    added = Problem(constraint, seed=5)
    opt.add_param_group(
        {"params": [("added", added.weight)], "constraint": constraint.constraint, "lr": 0.01}
    )
    for _ in range(2):
        added.backward()
        train(problem, opt, 1)
    torch.testing.assert_close(problem.weight, alone.weight, rtol=1e-5, atol=1e-6)
    assert_identical(problem.bias.detach(), alone.bias.detach())
    assert opt.state[added.weight]["step"] == 2
    assert not torch.equal(added.weight, constraint.weight(seed=5))


@pytest.mark.parametrize("constraint", [c for c in CONSTRAINTS if not c.manifold.stacks], ids=lambda c: c.id)
def test_noise_of_a_parameter_does_not_depend_on_groups_after_it(constraint: ConstraintCase) -> None:
    alone, alone_opt = start(NOISY, constraint)
    train(alone, alone_opt, 3)
    problem, other = Problem(constraint), Problem(constraint, seed=5)
    opt = NOISY.build([*problem.groups(), {"params": [("other", other.weight)], "constraint": cl.Free()}])
    for _ in range(3):
        other.backward()
        train(problem, opt, 1)
    assert_identical(problem.state_dict()["weight"], alone.state_dict()["weight"])


def test_noise_differs_between_parameters_steps_and_seeds() -> None:
    def displacement(seed: int, steps: int) -> Tensor:
        weights = [nn.Parameter(torch.zeros(50)) for _ in range(2)]
        opt = cl.CoLod(weights, 0.1, temperature=1.0, seed=seed)
        for _ in range(steps):
            before = [w.detach().clone() for w in weights]
            for weight in weights:
                weight.grad = torch.zeros(50)
            opt.step()
        return torch.stack([w.detach() - b for w, b in zip(weights, before, strict=True)])

    draws = torch.cat([displacement(1, 1), displacement(1, 2), displacement(2, 1)])
    correlation = torch.corrcoef(draws) - torch.eye(6)
    assert correlation.abs().max() < 0.7  # |corr| of 50 pairs has a standard deviation of 0.14


def test_seed_none_follows_manual_seed_and_is_stored() -> None:
    def run(seed: int | None) -> tuple[Tensor, int]:
        torch.manual_seed(3)
        problem, opt = start(NOISY, by_id("circle"), seed=seed)
        train(problem, opt, 2)
        return problem.weight.detach(), opt.state_dict()["param_groups"][0]["seed"]

    (first, seed), (again, same) = run(None), run(None)
    assert seed == same
    assert_identical(first, again)
    assert_identical(run(seed)[0], first)


def test_every_option_may_differ_by_group() -> None:
    def parameter() -> nn.Parameter:
        return nn.Parameter(torch.full((3,), 0.2))

    options = [
        {"lr": 0.1, "friction": 1.0, "splitting": "OBA"},
        {"lr": 0.3, "friction": 0.5, "splitting": "BAOAB", "weight_decay": 0.1, "maximize": True},
        {"lr": 0.2, "friction": 2.0, "splitting": "BOA", "constraint": cl.Circle(1.0)},
    ]
    together = [{"params": [parameter()], **each} for each in options]
    opt = cl.CoLud(together, lr=1.0, friction=1.0)
    for _ in range(3):
        for group in opt.param_groups:
            group["params"][0].grad = torch.ones(3)
        opt.step()
    for group, each in zip(together, options, strict=True):
        weight = parameter()
        alone = cl.CoLud([{"params": [weight], **each}], lr=1.0, friction=1.0)
        for _ in range(3):
            weight.grad = torch.ones(3)
            alone.step()
        assert_identical(weight.detach(), group["params"][0].detach())


def test_tied_weights_move_once() -> None:
    torch.manual_seed(0)
    embedding, head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
    nn.init.uniform_(embedding.weight, -0.4, 0.4)
    head.weight = embedding.weight
    model = nn.Sequential(embedding, head)
    opt = cl.CoLud(cl.constrain(model, {"*weight": cl.Circle(0.5)}), 0.1, friction=1.0)
    model(torch.arange(5)).square().sum().backward()
    opt.step()
    assert [len(group["params"]) for group in opt.param_groups] == [1]
    assert opt.state[embedding.weight]["step"] == 1
    check_feasible(opt)


@each_constraint
def test_momentum_switched_off_and_on_again_stays_cotangent(constraint: ConstraintCase) -> None:
    problem, opt = start(by_id("sgd-momentum"), constraint)
    for momentum in (0.9, 0.0, 0.9):
        for group in opt.param_groups:
            group["momentum"] = momentum
        train(problem, opt, 2)


def test_temperature_schedule_draws_a_seed_when_noise_begins() -> None:
    problem, opt = start(QUIET, by_id("sphere"), seed=None)
    train(problem, opt, 1)
    assert opt.param_groups[0]["seed"] is None
    for group in opt.param_groups:
        group["temperature"] = 0.1
    train(problem, opt, 1)
    assert isinstance(opt.param_groups[0]["seed"], int)
