"""Random shapes, constraints, radii and gradients: steps stay finite and on the manifold."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import Parameter

import colangevin as cl
from colangevin.constraints import Constraint
from tests.optim.robustness import OPTIMIZERS, TOLERANCES, assert_finite, normal, orthonormal, placed

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
