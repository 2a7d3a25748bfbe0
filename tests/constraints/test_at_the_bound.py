"""Weights that a step left at their bound: the next optimizer accepts them and goes on where the last was."""

import copy
import functools

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def rows(n: int, *, spread: float) -> Tensor:
    """Rows with entries of very different size where the spread is large."""
    generator = torch.Generator().manual_seed(n)
    normals = torch.randn(2, 4, n, generator=generator, dtype=torch.float64)
    return normals[0] * (spread * normals[1]).exp()


@each_dtype
@pytest.mark.parametrize("n", [9, 784, 25_088, 50_257])
@pytest.mark.parametrize("slack", [True, False])
@pytest.mark.parametrize("spread", [0.0, 2.0])
@pytest.mark.parametrize("kind", [cl.CoLod, functools.partial(cl.ConstrainedSGD, momentum=0.9)])
def test_rows_pulled_to_their_bound_are_accepted(n, dtype, slack, spread, kind):
    for radius in (0.3, 1.0, 3.0):
        constraint = cl.Sphere(radius, slack=slack)
        start = rows(n, spread=spread)
        weight = nn.Parameter((0.99 * radius * start / start.norm(dim=1, keepdim=True)).to(dtype))
        if not slack:
            constraint.init_(weight)
        optimizer = kind([{"params": [weight], "constraint": constraint}], 0.1)
        for _ in range(4):
            weight.grad = -1e4 * weight.detach()
            optimizer.step()
            excess = (weight.detach().double() / radius).square().sum(1).sqrt() - 1
            assert float(excess.max()) <= (4 + 2 * n**0.25) * torch.finfo(dtype).eps
            constraint.check(weight)
            cl.CoLod([{"params": [weight], "constraint": constraint}], 0.1)


def test_small_entries_beside_a_large_one_count():
    # in a running sum in float32 each of the squares is lost beside 4096, all of them together are 5
    weight = torch.full((1, 50_001), 1e-2)
    weight[0, 0] = 64.0
    assert cl.Sphere(64.0).violation(weight) == pytest.approx((1 + 5 / 4096) ** 0.5 - 1, rel=1e-5)
    placed = cl.Sphere(1.0, slack=False).init_(weight)
    assert float(placed.double().square().sum()) == pytest.approx(1, abs=2e-6)


@each_dtype
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("constraint", [cl.Circle(0.05), cl.Sphere(0.5)], ids=repr)
def test_a_resumed_run_is_the_uninterrupted_one(constraint, dtype, noisy):
    generator = torch.Generator().manual_seed(0)
    start = (0.045 * (2 * torch.rand(200, 1000, generator=generator) - 1)).to(dtype)
    constraint.init_(start, init="nearest")

    def build(weight: Tensor) -> tuple[nn.Parameter, cl.CoLud]:
        parameter = nn.Parameter(weight.clone())
        group = {"params": [parameter], "constraint": constraint}
        tau = 1e-6 if noisy else 0.0
        return parameter, cl.CoLud([group], 0.1, friction=1.0, temperature=tau, seed=0)

    def step(parameter: nn.Parameter, optimizer: cl.CoLud, k: int) -> None:
        grad = torch.randn(200, 1000, generator=torch.Generator().manual_seed(k + 1))
        parameter.grad = (0.01 * grad).to(dtype)
        optimizer.step()

    parameter, optimizer = build(start)
    step(parameter, optimizer, 0)
    for k in range(1, 8):
        again, resumed = build(parameter.detach())
        resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        step(again, resumed, k)
        step(parameter, optimizer, k)
        assert torch.equal(again, parameter)
        for key in ("position", "momentum"):
            assert torch.equal(resumed.state[again][key], optimizer.state[parameter][key])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_an_edit_by_one_unit_of_a_coarse_weight_is_taken_up(dtype):
    weight = nn.Parameter(torch.linspace(-0.9, 0.9, 1000).to(dtype))
    optimizer = cl.CoLud([{"params": [weight], "constraint": cl.Circle(1.0)}], 0.1, friction=1.0)
    weight.grad = torch.zeros_like(weight)
    optimizer.step()
    with torch.no_grad():
        edited = torch.nextafter(weight, torch.ones_like(weight))
        weight.copy_(edited)
    optimizer.step()
    moved = weight.detach() != edited
    # except where the angle was as near to the one as to the other
    assert int(moved.sum()) <= 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_weight_at_the_bound_of_an_inequality_leaves_it_when_the_loss_asks_for_it(
    dtype: torch.dtype,
) -> None:
    weight = torch.zeros(2, 3, dtype=dtype)
    weight[0, 0] = 1.0
    parameter = torch.nn.Parameter(weight)
    constraint = cl.Implicit(lambda w: w.square().sum() - 1, inequality=True)
    optimizer = cl.ConstrainedSGD([{"params": [parameter], "constraint": constraint}], 0.05, momentum=0.9)
    for _ in range(300):
        parameter.grad = 2 * parameter.detach()
        optimizer.step()
    assert float(parameter.detach().norm()) < 0.9
