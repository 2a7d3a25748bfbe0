"""Steps without direction or length: zero rates, centres, low rank, and momenta that grow or vanish."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

import colangevin as cl
from colangevin.constraints import Constraint
from tests.optim.robustness import (
    CONSTRAINTS,
    DTYPES,
    OPTIMIZERS,
    TOLERANCES,
    assert_feasible,
    assert_finite,
    normal,
    orthonormal,
    placed,
)


@DTYPES
@pytest.mark.parametrize("move", OPTIMIZERS)
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_learning_rate_of_zero_moves_nothing(constraint: str, move: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(8)
    start = placed(CONSTRAINTS[constraint], normal(generator, (5, 4), dtype))
    parameter = Parameter(start.clone())
    group = {"params": [parameter], "constraint": CONSTRAINTS[constraint], "lr": 0.0}
    optimizer = OPTIMIZERS[move]([group])
    for _ in range(5):
        parameter.grad = normal(generator, (5, 4), dtype)
        optimizer.step()
    assert_feasible(optimizer, TOLERANCES[dtype])
    torch.testing.assert_close(parameter.detach(), start, rtol=TOLERANCES[dtype], atol=0)


@DTYPES
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("lr", [1e-20, 1e-38, 1e-45])
def test_learning_rates_near_zero(lr: float, constraint: str, dtype: torch.dtype) -> None:
    """A schedule may end anywhere above zero, also where 1 / lr overflows in the weight's dtype."""
    generator = torch.Generator().manual_seed(9)
    for move in ("colod-noise", "colud-noise", "sgd-momentum"):
        parameter = Parameter(placed(CONSTRAINTS[constraint], normal(generator, (5, 4), dtype)))
        group = {"params": [parameter], "constraint": CONSTRAINTS[constraint], "lr": lr}
        optimizer = OPTIMIZERS[move]([group])
        for _ in range(3):
            parameter.grad = normal(generator, (5, 4), dtype)
            optimizer.step()
            assert_finite(optimizer)
            assert max(cl.diagnostics.violation(optimizer).values()) <= TOLERANCES[dtype]


def uphill(constraint: Constraint, parameter: Parameter, state: dict[str, Tensor]) -> Tensor:
    """A gradient opposite to the momentum, so that every kick adds to the momentum."""
    if "momentum" not in state:
        return torch.linspace(1, 2, parameter.numel(), dtype=parameter.dtype).view_as(parameter)
    p = state["momentum"]
    if isinstance(constraint, cl.Simplex | cl.NonNegative):
        return -p * state["position"].sign()
    if isinstance(constraint, cl.Circle):
        return (-p * state["position"].cos().sign()).reshape(parameter.shape)
    manifold = constraint.on(parameter.shape)
    return -manifold.lower(p.reshape(1, *manifold.configuration_shape))[0]


@DTYPES
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_momentum_without_friction_grows_without_harm(constraint: str, dtype: torch.dtype) -> None:
    held = CONSTRAINTS[constraint]
    generator = torch.Generator().manual_seed(10)
    parameter = Parameter(placed(held, normal(generator, (5, 4), dtype)))
    group = {"params": [parameter], "constraint": held, "lr": 0.5, "friction": 0.0}
    optimizer = cl.CoLud([group], lr=0.5, friction=0.0)
    for _ in range(150):
        parameter.grad = uphill(held, parameter, optimizer.state[parameter])
        optimizer.step()
        assert_feasible(optimizer, TOLERANCES[dtype])
    peak = float(optimizer.state[parameter]["momentum"].abs().max())
    # without a RATTLE projection the polar one takes over; its momentum is a chord / lr, a chord at most 2
    assert peak < 2 / 0.5 if isinstance(held, cl.Orthogonal) else peak > 1e10


@DTYPES
@pytest.mark.parametrize("slack", [True, False])
@pytest.mark.parametrize("phi", [1e-12, 1e-3, 1.0, 30.0, 1e3, 1e6])
def test_a_great_circle_keeps_the_speed_however_many_turns_it_takes(
    phi: float, slack: bool, dtype: torch.dtype
) -> None:
    """A is a rotation: |p| stays to a few roundings, also where the angle is too large to be precise."""
    generator = torch.Generator().manual_seed(12)
    sphere = cl.Sphere(1.5, slack=slack)
    weight = placed(sphere, normal(generator, (6, 4), dtype))
    sphere = sphere.on(weight.shape)
    q = sphere.lift(weight.unsqueeze(0))
    p = sphere.tangent(q, normal(generator, tuple(q.shape), dtype))
    speed = p.norm(dim=-1)
    q_new, p_new = sphere.drift(q, p, phi * 1.5 / float(speed.max()))
    torch.testing.assert_close(p_new.norm(dim=-1), speed, rtol=8 * torch.finfo(dtype).eps, atol=0)
    assert float(sphere.cotangency(q_new.double(), p_new.double()).max()) <= TOLERANCES[dtype]


@DTYPES
@pytest.mark.parametrize("slack", [True, False])
def test_a_great_circle_keeps_a_momentum_whose_square_vanishes(slack: bool, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(16)
    sphere = cl.Sphere(1.5, slack=slack)
    weight = placed(sphere, normal(generator, (6, 4), dtype))
    sphere = sphere.on(weight.shape)
    q = sphere.lift(weight.unsqueeze(0))
    tiny = torch.finfo(dtype).tiny ** 0.65
    p = tiny * sphere.tangent(q, normal(generator, tuple(q.shape), dtype))
    _, p_new = sphere.drift(q, p, 0.1)
    torch.testing.assert_close(p_new / tiny, p / tiny, rtol=0, atol=8 * torch.finfo(dtype).eps)


@DTYPES
@pytest.mark.parametrize("speed", [1e-6, 1.0, 1e6, 1e12])
def test_the_cotangency_of_a_circle_is_relative_to_its_momentum(speed: float, dtype: torch.dtype) -> None:
    """Angular velocities are cotangent by construction, whatever their size."""
    generator = torch.Generator().manual_seed(13)
    beta = normal(generator, (2, 3, 4), dtype)
    omega = speed * normal(generator, (2, 3, 4), dtype)
    assert float(cl.Circle(0.1).on((3, 4)).cotangency(beta.double(), omega.double()).max()) <= 1e-15


@DTYPES
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (4, 4), (3, 5), (7, 1), (1, 7)])
@pytest.mark.parametrize("lost", ["all", "one", "half"])
def test_overdamped_steps_onto_a_matrix_of_low_rank(
    lost: str, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    """Q - hG is 0, or Q with one column (or row) zeroed or halved: the step lands all the same."""
    weight = orthonormal(shape, dtype)
    parameter = Parameter(weight.clone())
    optimizer = cl.CoLod([{"params": [parameter], "constraint": cl.Orthogonal()}], lr=0.25)
    parameter.grad = weight / 0.25
    if lost != "all":
        keep = weight.clone()
        (keep[:, 0] if shape[0] >= shape[1] else keep[0]).mul_(0.0 if lost == "one" else 0.5)
        parameter.grad -= keep / 0.25
    optimizer.step()
    assert_feasible(optimizer, TOLERANCES[dtype])


@DTYPES
@pytest.mark.parametrize("move", ["colod", "sgd"])
def test_a_row_that_lands_on_the_centre_stays_where_it_was(move: str, dtype: torch.dtype) -> None:
    sphere = cl.Sphere(2.0, slack=False)
    weight = torch.tensor([[2.0, 0.0, 0.0], [0.0, -2.0, 0.0]], dtype=dtype)
    parameter = Parameter(weight.clone())
    optimizer = OPTIMIZERS[move]([{"params": [parameter], "constraint": sphere, "lr": 0.5}])
    parameter.grad = torch.tensor([[4.0, 0.0, 0.0], [1.0, 0.0, 0.0]], dtype=dtype)
    optimizer.step()
    assert_feasible(optimizer, TOLERANCES[dtype])
    assert torch.equal(parameter.detach()[0], weight[0])
    assert not torch.equal(parameter.detach()[1], weight[1])


@DTYPES
def test_rows_with_slack_that_step_onto_the_centre_end_at_the_pole(dtype: torch.dtype) -> None:
    weight = torch.tensor([[2.0, 0.0, 0.0], [1.0, 0.0, 0.0]], dtype=dtype)
    parameter = Parameter(weight.clone())
    optimizer = cl.CoLod([{"params": [parameter], "constraint": cl.Sphere(2.0)}], lr=0.5)
    parameter.grad = 2 * weight
    optimizer.step()
    assert_feasible(optimizer, TOLERANCES[dtype])
    # all of the norm is slack there: of the first row what rounding may have left of it at the bound
    atol = 8 * math.sqrt(torch.finfo(dtype).eps)
    torch.testing.assert_close(parameter.detach(), torch.zeros_like(weight), rtol=0, atol=atol)


@DTYPES
def test_a_circle_that_lands_on_its_centre_goes_somewhere_on_it(dtype: torch.dtype) -> None:
    with pytest.warns(UserWarning, match="exactly at the bound"):
        optimizer = cl.CoLod(
            [{"params": [Parameter(torch.full((3,), 0.5, dtype=dtype))], "constraint": cl.Circle(0.5)}],
            lr=1.0,
        )
    (parameter,) = optimizer.param_groups[0]["params"]
    parameter.grad = torch.full((3,), 0.5, dtype=dtype)
    optimizer.step()
    assert_feasible(optimizer, TOLERANCES[dtype])


@DTYPES
@pytest.mark.parametrize("r", [0.3, 1.0, 1.3])
def test_rows_without_freedom_have_no_momentum(r: float, dtype: torch.dtype) -> None:
    """A row of one entry with fixed norm is +r or -r: its momentum is 0 up to rounding of the kicks."""
    parameter = Parameter(torch.tensor([[r], [-r], [r]], dtype=dtype))
    optimizer = cl.CoLud(
        [{"params": [parameter], "constraint": cl.Sphere(r, slack=False)}], 0.1, friction=1.0
    )
    start = parameter.detach().clone()
    for seed in range(50):
        parameter.grad = normal(torch.Generator().manual_seed(seed), (3, 1), dtype)
        optimizer.step()
    eps = torch.finfo(dtype).eps
    assert float(optimizer.state[parameter]["momentum"].abs().max()) <= 8 * eps
    torch.testing.assert_close(parameter.detach(), start, rtol=4 * eps, atol=0)
