"""Parameters that are replaced, resized, cast or moved between steps: the step follows what is there now."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim_db import (
    OBA,
    ConstraintCase,
    OptimizerCase,
    Problem,
    assert_identical,
    by_id,
    check_feasible,
    each_constraint,
    snapshot,
    start,
    train,
)

SOME = pytest.mark.parametrize("optimizer", [by_id("colod"), by_id("sgd-momentum-noisy")], ids=lambda c: c.id)


@SOME
@each_constraint
def test_a_parameter_put_in_place_of_another_is_the_one_that_moves(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    problem, opt = start(optimizer, constraint)
    train(problem, opt, 2)
    old, old_values = problem.weight, problem.weight.detach().clone()
    problem.weight = nn.Parameter(constraint.weight(seed=5))
    opt.param_groups[0]["params"][0] = problem.weight
    new_values = problem.weight.detach().clone()
    train(problem, opt, 1)
    assert_identical(old.detach(), old_values)
    assert not torch.equal(problem.weight.detach(), new_values)
    assert opt.state[problem.weight]["step"] == 1


@each_constraint
def test_a_group_put_in_place_of_another_is_the_one_that_counts(constraint: ConstraintCase) -> None:
    problem, opt = start(OBA, constraint)
    train(problem, opt, 1)
    opt.param_groups[1] = {**opt.param_groups[1], "lr": 0.0}
    bias = problem.bias.detach().clone()
    train(problem, opt, 1)
    assert_identical(problem.bias.detach(), bias)


def shrunk(weight: Tensor) -> Tensor:
    """The first half, in the same memory."""
    return weight[: len(weight) // 2]


def grown(weight: Tensor) -> Tensor:
    return torch.cat((weight, weight))


@pytest.mark.parametrize("resize", [shrunk, grown], ids=["shrunk", "grown"])
@pytest.mark.parametrize("case", ["free", "circle", "sphere-slack", "sphere"])
def test_a_resized_parameter_with_state_of_the_old_size_is_refused(
    case: str, resize: Callable[[Tensor], Tensor]
) -> None:
    problem, opt = start(OBA, by_id(case))
    train(problem, opt, 1)
    problem.weight.data = resize(problem.weight.data)
    problem.weight.grad = torch.ones_like(problem.weight)
    before = snapshot(opt)
    with pytest.raises(cl.ConstraintError, match=r"'weight'.*has shape .* should have .*old shape back"):
        opt.step()
    assert_identical(snapshot(opt), before)


@pytest.mark.parametrize("resize", [shrunk, grown], ids=["shrunk", "grown"])
@pytest.mark.parametrize("case", ["free", "sphere"])
def test_a_resized_parameter_without_state_moves_whole(case: str, resize: Callable[[Tensor], Tensor]) -> None:
    """An overdamped step on weights that determine their position keeps nothing but the count."""
    problem, opt = start(by_id("colod"), by_id(case), torch.float64)
    train(problem, opt, 2)
    values = resize(problem.weight.data).clone()
    problem.weight.data = resize(problem.weight.data)
    fresh, fresh_opt = start(by_id("colod"), by_id(case), torch.float64)
    fresh.weight = nn.Parameter(values)
    fresh_opt.param_groups[0]["params"][0] = fresh.weight
    problem.weight.grad = torch.linspace(-1, 1, values.numel(), dtype=torch.float64).view_as(values)
    fresh.weight.grad = problem.weight.grad.clone()
    opt.step()
    fresh_opt.step()
    torch.testing.assert_close(problem.weight.detach(), fresh.weight.detach(), rtol=1e-14, atol=1e-14)


@SOME
@each_constraint
def test_a_parameter_made_double_goes_on_in_double(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    problem, opt = start(optimizer, constraint)
    train(problem, opt, 2)
    problem.double()
    for _ in range(2):
        problem.backward()
        opt.step()
    weight = problem.weight
    tensors = [value for key, value in opt.state[weight].items() if key != "step"]
    assert all(tensor.dtype == torch.float64 for tensor in [weight, *tensors])
    assert cl.diagnostics.violation(opt)["weight"] <= 1e-13
    assert cl.diagnostics.cotangency(opt).get("weight", 0.0) <= 1e-6  # of momenta made in float32
    again = weight.detach().float().double()
    assert bool((again != weight).any())


@SOME
@each_constraint
def test_a_parameter_made_coarse_keeps_its_state_in_float32(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    problem, opt = start(optimizer, constraint, torch.float64)
    train(problem, opt, 2)
    problem.bfloat16()
    for _ in range(2):
        problem.backward()
        opt.step()
        check_feasible(opt)
    tensors = [value for key, value in opt.state[problem.weight].items() if key != "step"]
    assert all(tensor.dtype == torch.float32 for tensor in tensors)


def test_a_parameter_in_another_memory_format_goes_on_as_before() -> None:
    def run(convert: bool) -> Tensor:
        torch.manual_seed(3)
        weight = nn.Parameter(torch.empty(4, 3, 2, 2).uniform_(-0.4, 0.4))
        opt = cl.CoLud([{"params": [weight], "constraint": cl.Circle(0.5)}], 0.2, friction=1.0)
        for step in range(4):
            if convert and step == 2:
                weight.data = weight.data.contiguous(memory_format=torch.channels_last)
            weight.grad = torch.randn(4, 3, 2, 2)
            opt.step()
        return weight.detach().contiguous()

    torch.testing.assert_close(run(True), run(False), rtol=1e-6, atol=1e-6)


# ---- constraints --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (cl.Circle(2.0), cl.Sphere(3.0)),
        (cl.Sphere(3.0), cl.Circle(2.0)),
        (cl.Free(), cl.Circle(2.0)),
        (cl.Circle(2.0), cl.Circle(2.5)),
    ],
    ids=repr,
)
def test_another_constraint_for_weights_with_state_is_refused(
    before: cl.Constraint, after: cl.Constraint
) -> None:
    weight = nn.Parameter(torch.full((3, 2), 0.5))
    opt = cl.CoLud([{"params": [("w", weight)], "constraint": before}], 0.1, friction=1.0)
    weight.grad = torch.ones(3, 2)
    opt.step()
    values = weight.detach().clone()
    opt.param_groups[0]["constraint"] = after
    for _ in range(2):
        with pytest.raises(cl.ConstraintError, match=r"parameter 'w' \(3, 2\): its group now says .* under"):
            opt.step()
    assert_identical(weight.detach(), values)
    opt.param_groups[0]["constraint"] = before
    opt.step()
    assert not torch.equal(weight.detach(), values)


def test_another_constraint_before_the_first_step_is_taken() -> None:
    problem, opt = start(OBA, by_id("free"))
    problem.weight.data = by_id("sphere").weight()
    problem.constraint = opt.param_groups[0]["constraint"] = cl.Sphere(1.5, slack=False)
    train(problem, opt, 2)
    assert isinstance(opt.param_groups[0]["constraint"], cl.Sphere)


def test_a_constraint_that_is_none_is_refused_at_the_next_step() -> None:
    problem, opt = start(OBA, by_id("circle"))
    opt.param_groups[0]["constraint"] = "circle"
    problem.backward()
    with pytest.raises(TypeError, match="constraint='circle' in param_groups"):
        opt.step()


# ---- groups -------------------------------------------------------------------------------------------


def test_groups_serve_several_optimizers() -> None:
    problem = Problem(by_id("circle"))
    groups = problem.groups()
    cl.CoLud(groups, 0.3, friction=1.0)
    other = cl.CoLud(groups, 0.1, friction=2.0)
    assert [group["lr"] for group in other.param_groups] == [0.1, 0.1]
    assert "lr" not in groups[0]
    assert other.param_groups[0]["param_names"] == ["weight"]


def test_groups_from_iterators_serve_several_optimizers() -> None:
    model = nn.Linear(2, 2)
    groups = [{"params": model.named_parameters()}]
    for _ in range(2):
        assert len(cl.CoLod(groups, 0.1).param_groups[0]["params"]) == 2


def test_groups_share_no_tensor() -> None:
    problem = Problem(by_id("circle"))
    lr = torch.tensor(0.1)
    opt = cl.CoLod(problem.groups(), lr)
    for group in opt.param_groups:
        group["lr"].mul_(0.1)
    assert [round(float(group["lr"]), 6) for group in opt.param_groups] == [0.01, 0.01]
    assert float(lr) == pytest.approx(0.1)
