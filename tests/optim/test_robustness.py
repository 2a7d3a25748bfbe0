"""Nothing explodes: from finite gradients of any size every step stays finite, on the manifold, cotangent.

Tolerances, for weights of a few dozen entries: relative violation and cotangency of 2e-6 in float32 (17
roundings; orthogonality alone stops its iteration at 8) and 1e-12 in float64. General constraints accept a
landing where g is 32 roundings of |J| |w|, which is at most 2 sqrt(2) here, so there it is 1.2e-5 in float32.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import Parameter

import colangevin as cl
from colangevin.constraints import Constraint
from colangevin.optim.base import ConstrainedOptimizer

TOLERANCES = {torch.float32: 2e-6, torch.float64: 1e-12}
IMPLICIT_TOLERANCES = {torch.float32: 1.2e-5, torch.float64: 1e-12}
DTYPES = pytest.mark.parametrize("dtype", TOLERANCES, ids=["float32", "float64"])

SCALES = [1e-8, 1e-4, 1.0, 1e4, 1e8]
RATES = [1e-6, 1e-3, 0.1, 1.0, 10.0]
TAU = 1e-2

Group = dict[str, object]

OPTIMIZERS: dict[str, Callable[[list[Group]], ConstrainedOptimizer]] = {
    "colod": lambda groups: cl.CoLod(groups, lr=0.1),
    "colod-noise": lambda groups: cl.CoLod(groups, lr=0.1, temperature=TAU, seed=1),
    "colud": lambda groups: cl.CoLud(groups, lr=0.1, friction=1.0),
    "colud-noise": lambda groups: cl.CoLud(groups, lr=0.1, friction=1.0, temperature=TAU, seed=1),
    "colud-baoab": lambda groups: cl.CoLud(
        groups, lr=0.1, friction=1.0, temperature=TAU, seed=1, splitting="BAOAB"
    ),
    "sgd": lambda groups: cl.ConstrainedSGD(groups, lr=0.1),
    "sgd-noise": lambda groups: cl.ConstrainedSGD(groups, lr=0.1, temperature=TAU, seed=1),
    "sgd-momentum": lambda groups: cl.ConstrainedSGD(groups, lr=0.1, momentum=0.9),
    "sgd-momentum-noise": lambda groups: cl.ConstrainedSGD(
        groups, lr=0.1, momentum=0.9, temperature=TAU, seed=1
    ),
}


def rows_of_norm_one(w: Tensor) -> Tensor:
    return w.square().sum(1) - 1


def entries_at_most_one(w: Tensor) -> Tensor:
    return w.square() - 1


CONSTRAINTS: dict[str, Constraint] = {
    "circle": cl.Circle(0.05),
    "circle-radii": cl.Circle(torch.logspace(-2, 1, 4, dtype=torch.float64)),
    "sphere": cl.Sphere(0.7, slack=False),
    "sphere-slack": cl.Sphere(3.0),
    "orthogonal": cl.Orthogonal(),
}


def normal(generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Standard normals that are the same in every dtype, up to rounding."""
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def placed(constraint: Constraint, weight: Tensor) -> Tensor:
    """A weight on the manifold, away from its bound where there is one."""
    if isinstance(constraint, cl.Circle):
        return torch.tanh(weight) * constraint.radii.like(weight) * 0.8
    if isinstance(constraint, cl.Sphere) and constraint.slack:
        rows = weight.flatten(1)
        r = constraint.radii.like(rows)
        return (0.6 * r * rows / rows.norm(dim=1, keepdim=True)).reshape(weight.shape)
    if isinstance(constraint, cl.Implicit) and constraint.inequality:
        return torch.tanh(weight) * 0.8
    if isinstance(constraint, cl.Orthogonal):
        # the nearest orthonormal matrix; init_ would draw one from torch's generator
        manifold = constraint.on(weight.shape)
        return manifold.lower(manifold.lift(weight.unsqueeze(0)))[0].contiguous()
    return constraint.init_(weight)


def assert_finite(optimizer: ConstrainedOptimizer) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state[parameter]
            tensors = {
                "weight": parameter,
                **{key: value for key, value in state.items() if isinstance(value, Tensor)},
            }
            for key, value in tensors.items():
                assert bool(value.isfinite().all()), (key, group["constraint"], group["lr"])


def assert_feasible(optimizer: ConstrainedOptimizer, tolerance: float) -> None:
    """Everything finite, on its manifold and cotangent, relative to radius and momentum."""
    assert_finite(optimizer)
    for measure in (cl.diagnostics.violation, cl.diagnostics.cotangency):
        for name, value in measure(optimizer).items():
            assert value <= tolerance, (measure.__name__, name, optimizer.param_groups[0]["constraint"])


# All optimizers x constraints x gradient sizes (SCALES) x learning rates (RATES) x dtypes.


def run_grid(optimizer_name: str, constraint: Constraint, dtype: torch.dtype, steps: int, every: int) -> None:
    """One group a learning rate, one replica a gradient size; all invariants every few steps."""
    generator = torch.Generator().manual_seed(7)
    shape = (6, 4)
    starts = [
        torch.stack([placed(constraint, normal(generator, shape, dtype)) for _ in SCALES]) for _ in RATES
    ]
    parameters = [Parameter(start.clone()) for start in starts]
    optimizer = OPTIMIZERS[optimizer_name](
        [
            {"params": [(f"lr={lr}", parameter)], "constraint": constraint, "lr": lr, "replicas": len(SCALES)}
            for lr, parameter in zip(RATES, parameters, strict=True)
        ]
    )
    scales = torch.tensor(SCALES, dtype=dtype).view(-1, 1, 1)
    for step in range(1, steps + 1):
        for parameter in parameters:
            parameter.grad = scales * normal(generator, (len(SCALES), *shape), dtype)
        optimizer.step()
        if step % every == 0:
            assert_feasible(optimizer, TOLERANCES[dtype])
    for lr, parameter, start in zip(RATES, parameters, starts, strict=True):
        moved = (parameter.detach() - start).abs().amax(dim=(1, 2))
        for scale, distance in zip(SCALES, moved.tolist(), strict=True):
            assert distance > 0 or lr**2 * scale < 1e-6, (lr, scale)


@DTYPES
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_of_any_size_stay_on_the_manifold(optimizer: str, constraint: str, dtype: torch.dtype) -> None:
    run_grid(optimizer, CONSTRAINTS[constraint], dtype, steps=30, every=10)


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_thousand_steps_of_any_size_stay_on_the_manifold(
    optimizer: str, constraint: str, dtype: torch.dtype
) -> None:
    run_grid(optimizer, CONSTRAINTS[constraint], dtype, steps=1000, every=20)


@DTYPES
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_free_parameters_stay_finite(optimizer: str, dtype: torch.dtype) -> None:
    run_grid(optimizer, cl.Free(), dtype, steps=30, every=10)


# General constraints, where a landing costs Jacobians: thinner grids, and one weight at a time.

IMPLICIT = {
    "equality": cl.Implicit(rows_of_norm_one),
    "inequality": cl.Implicit(entries_at_most_one, inequality=True),
}
# Steps h G up to about the size of the manifold: Newton lands at once, or after a few halvings.
MODERATE = [(lr, scale) for lr in RATES for scale in SCALES if lr * scale <= 1]
THINNED = [(1e-6, 1e4), (0.1, 1.0), (10.0, 1e-8)]
HUGE = [(lr, scale) for lr in RATES for scale in SCALES if lr * scale > 1]


def run_implicit(
    optimizer_name: str, constraint: Constraint, dtype: torch.dtype, lr: float, scale: float, steps: int
) -> None:
    generator = torch.Generator().manual_seed(11)
    parameter = Parameter(placed(constraint, normal(generator, (2, 2), dtype)))
    optimizer = OPTIMIZERS[optimizer_name]([{"params": [parameter], "constraint": constraint, "lr": lr}])
    for _ in range(steps):
        parameter.grad = scale * normal(generator, (2, 2), dtype)
        optimizer.step()
        assert_feasible(optimizer, IMPLICIT_TOLERANCES[dtype])


@DTYPES
@pytest.mark.parametrize("constraint", IMPLICIT)
@pytest.mark.parametrize("optimizer", ["colod-noise", "colud", "sgd-momentum-noise"])
def test_implicit_steps_stay_on_the_manifold(optimizer: str, constraint: str, dtype: torch.dtype) -> None:
    for lr, scale in THINNED:
        run_implicit(optimizer, IMPLICIT[constraint], dtype, lr, scale, steps=4)


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize("constraint", IMPLICIT)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_many_implicit_steps_stay_on_the_manifold(
    optimizer: str, constraint: str, dtype: torch.dtype
) -> None:
    for lr, scale in MODERATE:
        run_implicit(optimizer, IMPLICIT[constraint], dtype, lr, scale, steps=60)


@pytest.mark.parametrize("optimizer", ["colod", "colud"])
def test_a_huge_implicit_step_lands_after_halving(optimizer: str) -> None:
    """lr 10 and gradients of 1e8: the step is halved about 30 times, then it lands; no error is raised."""
    run_implicit(optimizer, IMPLICIT["equality"], torch.float32, 10.0, 1e8, steps=1)


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize("constraint", IMPLICIT)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_huge_implicit_steps_land_after_halving(optimizer: str, constraint: str, dtype: torch.dtype) -> None:
    for lr, scale in HUGE:
        run_implicit(optimizer, IMPLICIT[constraint], dtype, lr, scale, steps=3)


# Extreme radii, weights and gradients.


@dataclass(frozen=True)
class Extreme:
    constraint: Callable[[float], Constraint]
    #: from r to a weight of shape (3, 4)
    weights: dict[str, Callable[[float], Tensor]]


def full(value: float) -> Tensor:
    return torch.full((3, 4), value, dtype=torch.float64)


def spread(r: float) -> Tensor:
    """Entries between -r/2 and r/2."""
    return r * (torch.rand(3, 4, generator=torch.Generator().manual_seed(5)).double() - 0.5)


EXTREMES = {
    "circle": Extreme(
        cl.Circle,
        {"0": lambda r: full(0.0), "1e-40": lambda r: full(1e-40), "r": full, "spread": spread},
    ),
    "sphere-slack": Extreme(
        cl.Sphere,
        {
            "0": lambda r: full(0.0),
            "1e-40": lambda r: full(1e-40),
            "r": lambda r: full(r / 2),
            "spread": spread,
        },
    ),
    "sphere": Extreme(
        lambda r: cl.Sphere(r, slack=False), {"r": lambda r: full(r / 2), "spread": lambda r: spread(r)}
    ),
}
RADII = [1e-30, 1e-10, 1.0, 1e30]
MOVES = ["colod-noise", "colud", "colud-noise", "sgd-momentum"]


def run_extreme(name: str, r: float, dtype: torch.dtype, gradient: Callable[[Tensor], Tensor]) -> None:
    """A few steps of several optimizers and learning rates from each extreme weight."""
    extreme = EXTREMES[name]
    constraint = extreme.constraint(r)
    for start in extreme.weights.values():
        weight = start(r).to(dtype)
        if name == "sphere":
            constraint.init_(weight)
        for move in MOVES:
            groups = []
            for lr in (1e-6, 0.1, 10.0):
                parameter = Parameter(weight.clone())
                groups.append({"params": [parameter], "constraint": constraint, "lr": lr})
            with pytest.MonkeyPatch.context() as patch:
                # weights exactly at r under no noise are warned of; here they are the point
                patch.setattr("colangevin.optim.base.warn_at_rest", lambda *_: None)
                optimizer = OPTIMIZERS[move](groups)
            generator = torch.Generator().manual_seed(3)
            for _ in range(3):
                for group in optimizer.param_groups:
                    (parameter,) = group["params"]
                    parameter.grad = gradient(normal(generator, (3, 4), dtype))
                optimizer.step()
            assert_feasible(optimizer, TOLERANCES[dtype])


@DTYPES
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e8])
@pytest.mark.parametrize("r", RADII)
@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_radii_and_weights(name: str, r: float, scale: float, dtype: torch.dtype) -> None:
    run_extreme(name, r, dtype, lambda noise: scale * noise)


@DTYPES
@pytest.mark.parametrize("r", RADII)
@pytest.mark.parametrize("name", EXTREMES)
def test_the_largest_gradients_at_extreme_radii(name: str, r: float, dtype: torch.dtype) -> None:
    run_extreme(name, r, dtype, lambda noise: torch.finfo(dtype).max * noise.sign())


@DTYPES
@pytest.mark.parametrize("move", OPTIMIZERS)
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_the_largest_gradients_at_any_learning_rate(constraint: str, move: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(4)
    for lr in (0.0, 1e-30, 1e-6, 10.0):
        parameter = Parameter(placed(CONSTRAINTS[constraint], normal(generator, (5, 4), dtype)))
        group = {"params": [parameter], "constraint": CONSTRAINTS[constraint], "lr": lr}
        optimizer = OPTIMIZERS[move]([group])
        for _ in range(3):
            signs = normal(generator, (5, 4), dtype).sign()
            parameter.grad = torch.finfo(dtype).max * signs
            optimizer.step()
            assert_feasible(optimizer, TOLERANCES[dtype])


@DTYPES
@pytest.mark.parametrize("move", OPTIMIZERS)
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_denormal_gradients(constraint: str, move: str, dtype: torch.dtype) -> None:
    """Momenta below the smallest normal number have no relative precision: only q is held to a tolerance."""
    generator = torch.Generator().manual_seed(6)
    parameter = Parameter(placed(CONSTRAINTS[constraint], normal(generator, (5, 4), dtype)))
    optimizer = OPTIMIZERS[move]([{"params": [parameter], "constraint": CONSTRAINTS[constraint]}])
    tiny = torch.finfo(dtype).tiny * 1e-3
    for _ in range(3):
        parameter.grad = tiny * normal(generator, (5, 4), dtype)
        optimizer.step()
        assert_finite(optimizer)
        assert max(cl.diagnostics.violation(optimizer).values()) <= TOLERANCES[dtype]


@DTYPES
@pytest.mark.parametrize("r", [1e-30, 1e-15, 1e6])
@pytest.mark.parametrize("name", ["circle", "sphere-slack", "sphere"])
@pytest.mark.parametrize("move", ["colod", "colud", "sgd-momentum"])
def test_a_manifold_of_any_radius_moves_like_the_unit_one(
    move: str, name: str, r: float, dtype: torch.dtype
) -> None:
    """With gradients in proportion a change of r is a change of units: weight / r stays the same.

    Up to where forces are cut: in float32 at kicks of 4e9, however large the radius.
    """
    runs = []
    for radius in (1.0, r):
        constraint = EXTREMES[name].constraint(radius)
        start = spread(1.0).to(dtype)
        if name == "sphere":
            start = cl.Sphere(1.0, slack=False).init_(start)
        parameter = Parameter(start * radius)
        optimizer = OPTIMIZERS[move]([{"params": [parameter], "constraint": constraint}])
        generator = torch.Generator().manual_seed(15)
        for _ in range(10):
            parameter.grad = radius * normal(generator, (3, 4), dtype)
            optimizer.step()
        runs.append(parameter.detach() / radius)
    assert float((runs[0] - start).abs().max()) > 0.05
    tolerance = 50 * torch.finfo(dtype).eps
    torch.testing.assert_close(runs[1], runs[0], rtol=0, atol=tolerance)


# Steps that have no direction, no length or no end.


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
    """A schedule may end anywhere above zero, also where 1 / lr is no number of the weight's dtype."""
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
    """A gradient against the momentum's own direction, so that every kick makes it faster."""
    if "momentum" not in state:
        return torch.ones_like(parameter)
    p = state["momentum"]
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
    # where RATTLE's projection does not exist the polar one takes over, and no chord is longer than 2
    assert peak < 2 / 0.5 if isinstance(held, cl.Orthogonal) else peak > 1e10


@DTYPES
@pytest.mark.parametrize("slack", [True, False])
@pytest.mark.parametrize("phi", [1e-12, 1e-3, 1.0, 30.0, 1e3, 1e6])
def test_a_great_circle_keeps_the_speed_however_many_turns_it_takes(
    phi: float, slack: bool, dtype: torch.dtype
) -> None:
    """A is a rotation: |p| stays, to a few roundings, also when the angle itself has lost its digits."""
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


def orthonormal(shape: tuple[int, int], dtype: torch.dtype, seed: int = 14) -> Tensor:
    return placed(cl.Orthogonal(), normal(torch.Generator().manual_seed(seed), shape, dtype))


@DTYPES
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (4, 4), (3, 5), (7, 1), (1, 7)])
@pytest.mark.parametrize("lost", ["all", "one", "half"])
def test_overdamped_steps_onto_a_matrix_of_low_rank(
    lost: str, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    """Q - hG = 0, or with one direction, or half of one, taken out: still an orthonormal matrix."""
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
def test_a_row_whose_slack_is_zero_may_land_on_the_centre_too(dtype: torch.dtype) -> None:
    weight = torch.tensor([[2.0, 0.0, 0.0], [1.0, 0.0, 0.0]], dtype=dtype)
    parameter = Parameter(weight.clone())
    optimizer = cl.CoLod([{"params": [parameter], "constraint": cl.Sphere(2.0)}], lr=0.5)
    parameter.grad = 2 * weight
    optimizer.step()
    assert_feasible(optimizer, TOLERANCES[dtype])
    # the second row had slack left: it goes to the pole, where all of the norm is slack
    poles = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=dtype)
    torch.testing.assert_close(parameter.detach(), poles, rtol=0, atol=8 * torch.finfo(dtype).eps)


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
    """A row of one entry with fixed norm is +r or -r: its momentum is 0, or a rounding of the kicks."""
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


# Any shape, any constraint, any size.

SIDES = st.integers(1, 8)
SHAPES = st.one_of(
    st.sampled_from([(1, 1), (7, 1), (1, 7), (2, 3, 3, 3), (5, 1, 1, 1), (3, 2, 5)]),
    st.tuples(SIDES, SIDES),
    st.tuples(SIDES, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
)


def powers(low: int, high: int) -> st.SearchStrategy[float]:
    """Powers of ten with any exponent in a range."""
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    radius = draw(powers(-3, 3))
    return draw(
        st.sampled_from(
            [cl.Circle(radius), cl.Sphere(radius), cl.Sphere(radius, slack=False), cl.Orthogonal()]
        )
    )


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    shape=SHAPES,
    constraint=constraints(),
    move=st.sampled_from(sorted(OPTIMIZERS)),
    lr=powers(-6, 1),
    scale=powers(-8, 8),
    dtype=st.sampled_from(sorted(TOLERANCES, key=str)),
    seed=st.integers(0, 2**32),
)
def test_any_shape_any_constraint_any_size(
    shape: tuple[int, ...],
    constraint: Constraint,
    move: str,
    lr: float,
    scale: float,
    dtype: torch.dtype,
    seed: int,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    parameter = Parameter(placed(constraint, normal(generator, shape, dtype)))
    optimizer = OPTIMIZERS[move]([{"params": [parameter], "constraint": constraint, "lr": lr}])
    for _ in range(3):
        parameter.grad = scale * normal(generator, shape, dtype)
        optimizer.step()
    assert_finite(optimizer)
    assert max(cl.diagnostics.violation(optimizer).values()) <= TOLERANCES[dtype]
    if constraint.on(shape).degrees_of_freedom > 0:
        assert max(cl.diagnostics.cotangency(optimizer).values(), default=0.0) <= TOLERANCES[dtype]


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    rows=st.integers(1, 6),
    columns=st.integers(1, 6),
    size=powers(-8, 12),
    rank=st.integers(0, 6),
    dtype=st.sampled_from(sorted(TOLERANCES, key=str)),
    seed=st.integers(0, 2**32),
)
def test_any_matrix_projects_onto_an_orthonormal_one(
    rows: int, columns: int, size: float, rank: int, dtype: torch.dtype, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    r, s = max(rows, columns), min(rows, columns)
    Q = orthonormal((r, s), dtype).unsqueeze(0)
    left, right = normal(generator, (1, r, rank), dtype), normal(generator, (1, rank, s), dtype)
    frames = cl.Orthogonal().on((r, s))
    Q_new = frames.project(Q, size * left @ right)
    assert float(frames.residual(Q_new, Q_new.double()).max()) <= TOLERANCES[dtype]


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    values=st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=8),
    radius=powers(-30, 30),
    kick=st.floats(-1e4, 1e4),
    dtype=st.sampled_from(sorted(TOLERANCES, key=str)),
)
def test_any_weight_within_the_bound_stays_within_it(
    values: list[float], radius: float, kick: float, dtype: torch.dtype
) -> None:
    weight = (torch.tensor(values, dtype=torch.float64) * radius).to(dtype)
    parameter = Parameter(weight.clamp(-radius, radius))
    optimizer = cl.CoLud(
        [{"params": [parameter], "constraint": cl.Circle(radius)}],
        lr=0.1,
        friction=1.0,
        temperature=1e-6,
        seed=3,
    )
    for sign in (1, -1, 1):
        parameter.grad = torch.full_like(parameter, sign * kick * min(radius, 1.0))
        optimizer.step()
        bound = radius * (1 + 2 * torch.finfo(dtype).eps)
        assert float(parameter.detach().double().abs().max()) <= bound
        assert math.isfinite(float(optimizer.state[parameter]["momentum"].abs().max()))
