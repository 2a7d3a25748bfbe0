"""Memory layouts and shapes of a parameter: strided, channels last, empty, of zero dimensions."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim.contract.cases import NOISY, through_file
from tests.optim_db import (
    OBA,
    ConstraintCase,
    OptimizerCase,
    Problem,
    check_feasible,
    each_optimizer,
    start,
    train,
    whole_table,
)


@whole_table
def test_non_contiguous_parameter(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    plain, plain_opt = start(optimizer, constraint)
    problem = Problem(constraint)
    weight = problem.weight.detach()
    view = weight.transpose(0, 1).contiguous().transpose(0, 1)
    assert not view.is_contiguous()
    problem.weight = nn.Parameter(view)
    opt = optimizer.build(problem.groups())
    train(plain, plain_opt, 3)
    train(problem, opt, 3)
    assert problem.weight.stride() == view.stride()
    torch.testing.assert_close(problem.weight, plain.weight, rtol=1e-5, atol=1e-6)


@each_optimizer
@pytest.mark.parametrize(
    "constraint",
    [cl.Free(), cl.Circle(0.9), cl.Sphere(1.5), cl.Sphere(1.0, slack=False), cl.Orthogonal()],
    ids=repr,
)
def test_channels_last_convolution(optimizer: OptimizerCase, constraint: cl.Constraint) -> None:
    def run(memory_format: torch.memory_format) -> nn.Conv2d:
        torch.manual_seed(0)
        conv = nn.Conv2d(3, 4, 3)
        groups = cl.constrain(conv, {"weight": constraint})
        conv = conv.to(memory_format=memory_format)
        opt = optimizer.build(groups)
        x = torch.randn(2, 3, 5, 5).contiguous(memory_format=memory_format)
        for _ in range(3):
            opt.zero_grad()
            conv(x).square().mean().backward()
            opt.step()
            check_feasible(opt)
        return conv

    plain, strided = run(torch.contiguous_format), run(torch.channels_last)
    assert strided.weight.is_contiguous(memory_format=torch.channels_last)
    assert not strided.weight.is_contiguous()
    torch.testing.assert_close(strided.weight, plain.weight, rtol=1e-5, atol=1e-6)


def first_and_only(w: Tensor) -> Tensor:
    return w.square() - 0.25


SCALARS = (cl.Free(), cl.Circle(1.0), cl.Sphere(1.0), cl.Implicit(first_and_only, inequality=True))


@each_optimizer
@pytest.mark.parametrize("constraint", SCALARS, ids=repr)
def test_zero_dimensional_parameter(optimizer: OptimizerCase, constraint: cl.Constraint) -> None:
    weight = nn.Parameter(torch.tensor(0.3))
    opt = optimizer.build([{"params": [weight], "constraint": constraint}])
    for _ in range(3):
        weight.grad = torch.tensor(1.0)
        opt.step()
        check_feasible(opt)
    assert weight.shape == ()
    assert weight.item() != pytest.approx(0.3, abs=1e-4)
    opt.load_state_dict(through_file(opt.state_dict()))


def test_zero_dimensional_weight_on_a_fixed_sphere_stays() -> None:
    weight = nn.Parameter(torch.tensor(-2.0))
    opt = OBA.build([{"params": [weight], "constraint": cl.Sphere(2.0, slack=False)}])
    weight.grad = torch.tensor(1.0)
    opt.step()
    assert weight.item() == -2.0


@pytest.mark.parametrize(
    ("constraint", "shape"),
    [
        (constraint, shape)
        for constraint in (cl.Free(), cl.Circle(1.0), cl.Sphere(1.0), cl.Sphere(1.0, slack=False))
        for shape in ((0,), (0, 3), (3, 0))
    ]
    + [(cl.Orthogonal(), (0, 3)), (cl.Orthogonal(), (3, 0))],
    ids=str,
)
def test_empty_parameter(constraint: cl.Constraint, shape: tuple[int, ...]) -> None:
    weight, other = nn.Parameter(torch.zeros(shape)), nn.Parameter(torch.ones(2))
    constraint.init_(weight)
    opt = NOISY.build([{"params": [weight], "constraint": constraint}, {"params": [other]}])
    for parameter in (weight, other):
        parameter.grad = torch.zeros_like(parameter)
    opt.step()
    assert weight.shape == shape
    check_feasible(opt)
    opt.load_state_dict(through_file(opt.state_dict()))


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 1, 1, 1), (7, 3)])
@each_optimizer
def test_odd_shapes_under_orthogonality(optimizer: OptimizerCase, shape: tuple[int, ...]) -> None:
    case = ConstraintCase("", cl.Orthogonal(), lambda g: nn.init.orthogonal_(torch.empty(shape), generator=g))
    problem, opt = start(optimizer, case)
    train(problem, opt, 3)


def test_implicit_function_with_tensors_of_its_own_dtype() -> None:
    plane = torch.ones(4, dtype=torch.float64)
    weight = nn.Parameter(torch.full((4,), 0.1, dtype=torch.float64))
    constraint = cl.Implicit(lambda w: (plane @ w - 1).reshape(1), inequality=True)
    opt = NOISY.build([{"params": [weight], "constraint": constraint}])
    weight.grad = torch.zeros_like(weight)
    opt.step()
    check_feasible(opt)
    opt.load_state_dict(opt.state_dict())
