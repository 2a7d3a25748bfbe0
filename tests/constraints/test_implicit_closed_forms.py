"""General constraints equal the closed forms: one manifold in two descriptions."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from scipy.linalg import expm
from torch import Tensor
from torch.nn import Parameter

import colangevin as cl
from colangevin.constraints import Constraint, Manifold
from colangevin.dynamics.letters import drift, kick, ornstein_uhlenbeck
from tests.constraints.implicit_functions import (
    R,
    orthonormal_columns,
    row_norms,
    row_sums,
    unit_determinant,
    within_radius,
)
from tests.constraints.implicit_runs import assert_same, normal

H = 0.05
DECAY, SCALE = 0.9, 0.3


@dataclass(frozen=True)
class Pair:
    """A closed form and the same manifold as g(q) = 0, with maps from the first to the second.

    All tensors of the closed form are stacks of one.
    """

    constraint: Constraint
    implicit: cl.Implicit
    shape: tuple[int, ...]
    position: Callable[[Tensor], Tensor]
    momentum: Callable[[Tensor, Tensor], Tensor]
    #: from q and noise of the implicit form to noise of the closed one
    noise: Callable[[Tensor, Tensor], Tensor]

    @property
    def closed(self) -> Manifold:
        return self.constraint.on(self.shape)

    @property
    def general(self) -> Manifold:
        return self.implicit.on(self.shape)

    def start(self) -> tuple[Tensor, Tensor]:
        """A point with momentum, of the closed form."""
        weight = 0.3 * normal(1, 1, *self.shape)
        if not self.closed.hidden:
            weight = self.closed.lower(self.closed.lift(weight))
        q = self.closed.lift(weight)
        return q, self.closed.tangent(q, normal(2, *q.shape))


def spread(x: Tensor) -> Tensor:
    """From rows that each end in their slack to all rows followed by all slacks."""
    return torch.cat((x[..., :-1].flatten(1), x[..., -1]), dim=1)


def gather(x: Tensor, rows: int, n: int) -> Tensor:
    return torch.cat((x[:, : rows * n].view(-1, rows, n), x[:, rows * n :].unsqueeze(-1)), dim=-1)


def circle_pair() -> Pair:
    n = 6
    return Pair(
        constraint=cl.Circle(R),
        implicit=cl.Implicit(within_radius, inequality=True),
        shape=(2, 3),
        position=lambda q: R * torch.cat((q.sin().flatten(1), q.cos().flatten(1)), dim=1),
        momentum=lambda q, p: R * torch.cat(((p * q.cos()).flatten(1), (-p * q.sin()).flatten(1)), dim=1),
        noise=lambda q, noise: ((q[:, n:] * noise[:, :n] - q[:, :n] * noise[:, n:]) / R).view(1, 2, 3),
    )


def flat_pair(closed: Constraint, g: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> Pair:
    return Pair(
        constraint=closed,
        implicit=cl.Implicit(g),
        shape=shape,
        position=lambda q: q.flatten(1),
        momentum=lambda q, p: p.flatten(1),
        noise=lambda q, noise: noise.view(1, *shape),
    )


EQUATIONS = torch.tensor([[1.0, 1.0, 2.0, 0.0], [0.0, 1.0, -1.0, 3.0]], dtype=torch.float64)
VALUES = torch.tensor([1.0, -0.5], dtype=torch.float64)


def equations_of_rows(w: Tensor) -> Tensor:
    return (w @ EQUATIONS.T - VALUES).flatten()


PAIRS = {
    "circle": circle_pair(),
    "sphere": flat_pair(cl.Sphere(R, slack=False), row_norms, (3, 4)),
    "sphere-slack": Pair(
        constraint=cl.Sphere(R),
        implicit=cl.Implicit(row_norms, inequality=True),
        shape=(3, 4),
        position=spread,
        momentum=lambda q, p: spread(p),
        noise=lambda q, noise: gather(noise, 3, 4),
    ),
    "orthogonal": flat_pair(cl.Orthogonal(), orthonormal_columns, (5, 3)),
    "orthogonal-square": flat_pair(cl.Orthogonal(), orthonormal_columns, (3, 3)),
    "affine": flat_pair(cl.Affine(EQUATIONS, VALUES), equations_of_rows, (3, 4)),
    "affine-sum": flat_pair(cl.Affine.sum(0.0, over="columns"), lambda w: w.sum(0), (3, 4)),
    "symmetric": flat_pair(cl.Symmetric(), lambda w: (w - w.mT)[0, 1:], (2, 2)),
}
GEODESICS = ["circle", "sphere", "sphere-slack"]
ORTHOGONAL = ["orthogonal", "orthogonal-square"]
PLANES = ["affine", "affine-sum", "symmetric"]


@pytest.mark.parametrize("name", PAIRS)
def test_lift_finds_the_same_point(name: str) -> None:
    pair = PAIRS[name]
    q, _ = pair.start()
    assert_same(pair.general.lift(pair.closed.lower(q)), pair.position(q))


@pytest.mark.parametrize("name", PAIRS)
def test_kick_equals_the_closed_form(name: str) -> None:
    pair = PAIRS[name]
    q, p = pair.start()
    grad = normal(3, 1, *pair.shape)
    expected = kick(pair.closed, q, p, grad, H)
    actual = kick(pair.general, pair.position(q), pair.momentum(q, p), grad, H)
    assert_same(actual, pair.momentum(q, expected))


@pytest.mark.parametrize("name", PAIRS)
def test_ornstein_uhlenbeck_equals_the_closed_form(name: str) -> None:
    pair = PAIRS[name]
    q, p = pair.start()
    flat = pair.position(q)
    noise = normal(4, *flat.shape)
    expected = ornstein_uhlenbeck(pair.closed, q, p, DECAY, SCALE, pair.noise(flat, noise))
    actual = ornstein_uhlenbeck(pair.general, flat, pair.momentum(q, p), DECAY, SCALE, noise)
    assert_same(actual, pair.momentum(q, expected))


@pytest.mark.parametrize("name", GEODESICS)
def test_drift_is_third_order_to_the_geodesic(name: str) -> None:
    """The one-step error of RATTLE falls by 2^3 when h is halved: ratio in (7.5, 8.5)."""
    pair = PAIRS[name]
    q, p = pair.start()
    errors = []
    for h in (0.04, 0.02, 0.01):
        q_exact, p_exact = drift(pair.closed, q, p, h)
        q_new, p_new = drift(pair.general, pair.position(q), pair.momentum(q, p), h)
        errors.append(
            torch.stack(
                [
                    (q_new - pair.position(q_exact)).norm(),
                    (p_new - pair.momentum(q_exact, p_exact)).norm(),
                ]
            )
        )
    for coarse, fine in itertools.pairwise(errors):
        assert bool(((coarse / fine > 7.5) & (coarse / fine < 8.5)).all()), coarse / fine


def stiefel_geodesic(Q: Tensor, P: Tensor, t: float) -> Tensor:
    """The geodesic of the embedded metric (Edelman, Arias, Smith 1998, eq. 2.7)."""
    s = Q.shape[1]
    A, S, identity = Q.T @ P, P.T @ P, torch.eye(s, dtype=Q.dtype)
    block = torch.cat((torch.cat((A, -S), dim=1), torch.cat((identity, A), dim=1)))
    exponential = torch.from_numpy(expm(t * block.numpy()))[:, :s]
    return torch.cat((Q, P), dim=1) @ exponential @ torch.from_numpy(expm(-t * A.numpy()))


@pytest.mark.parametrize("name", ORTHOGONAL)
@pytest.mark.parametrize("form", ["closed", "general"])
def test_rattle_is_third_order_to_the_stiefel_geodesic(name: str, form: str) -> None:
    pair = PAIRS[name]
    q, p = pair.start()
    errors = []
    for h in (0.04, 0.02, 0.01):
        exact = stiefel_geodesic(q[0], p[0], h)
        assert_same(exact.T @ exact, torch.eye(q.shape[2], dtype=torch.float64), 1e-13)
        if form == "closed":
            q_new = drift(pair.closed, q, p, h)[0][0]
        else:
            q_new = drift(pair.general, pair.position(q), pair.momentum(q, p), h)[0].view(pair.shape)
        errors.append(float((q_new - exact).norm()))
    for coarse, fine in itertools.pairwise(errors):
        assert 7.5 < coarse / fine < 8.5


@pytest.mark.parametrize("h", [0.001, 0.05, 0.2])
@pytest.mark.parametrize("name", ORTHOGONAL + PLANES)
def test_drift_equals_the_closed_form(name: str, h: float) -> None:
    pair = PAIRS[name]
    q, p = pair.start()
    q_expected, p_expected = drift(pair.closed, q, p, h)
    q_new, p_new = drift(pair.general, pair.position(q), pair.momentum(q, p), h)
    assert_same(q_new, pair.position(q_expected))
    assert_same(p_new, pair.momentum(q_expected, p_expected))


@pytest.mark.parametrize("name", ORTHOGONAL + PLANES)
def test_overdamped_step_equals_the_closed_form(name: str) -> None:
    pair = PAIRS[name]
    q, _ = pair.start()
    grad, noise = normal(5, 1, *pair.shape), normal(6, *q.shape)
    expected = pair.closed.euler(q, grad, H, 0.05, noise)
    actual = pair.general.euler(pair.position(q), grad, H, 0.05, noise.flatten(1))
    assert_same(actual, pair.position(expected))


@pytest.mark.parametrize(("tangential", "low", "high"), [(False, 3.6, 4.4), (True, 7.5, 8.5)])
@pytest.mark.parametrize("name", ["sphere", "sphere-slack"])
def test_overdamped_step_approaches_the_closed_form(
    name: str, tangential: bool, low: float, high: float
) -> None:
    """The general step projects along J(q_n), the closed one along J(q_{n+1}).

    They are O(h^2) apart, and O(h^3) where the step has no normal part.
    """
    pair = PAIRS[name]
    q, _ = pair.start()
    step = normal(7, *q.shape)
    if tangential:
        step = pair.closed.tangent(q, step)
    errors = []
    for h in (0.02, 0.01, 0.005):
        expected = pair.closed.project(q, q + h * step)
        actual = pair.general.project(pair.position(q), pair.position(q) + h * pair.momentum(q, step))
        errors.append(float((actual - pair.position(expected)).norm()))
    for coarse, fine in itertools.pairwise(errors):
        assert low < coarse / fine < high


@pytest.mark.parametrize("splitting", ["OBA", "BAOAB"])
@pytest.mark.parametrize("name", ORTHOGONAL + PLANES)
def test_a_run_of_the_optimizer_equals_the_closed_form(name: str, splitting: str) -> None:
    pair = PAIRS[name]
    start = pair.closed.lower(pair.start()[0])[0]
    weights = []
    for constraint in (pair.constraint, pair.implicit):
        parameter = Parameter(start.clone())
        optimizer = cl.CoLud(
            [{"params": [parameter], "constraint": constraint}],
            lr=H,
            friction=1.0,
            temperature=0.1,
            splitting=splitting,
            seed=5,
        )
        for step in range(20):
            parameter.grad = normal(100 + step, *pair.shape)
            optimizer.step()
        weights.append(parameter.detach())
    assert_same(weights[1], weights[0])


@pytest.mark.parametrize("splitting", ["OBA", "BAOAB"])
def test_a_simplex_is_the_squares_of_a_general_sphere(splitting: str) -> None:
    """RATTLE is third order to the great circle in one step: at h = 0.001 both are 1e-8 apart after 20."""
    start = torch.softmax(normal(1, 3, 4), dim=1)
    weight, root = Parameter(start.clone()), Parameter(start.sqrt())
    optimizers = [
        cl.CoLud(
            [{"params": [parameter], "constraint": constraint}],
            lr=0.001,
            friction=1.0,
            temperature=0.1,
            splitting=splitting,
            seed=5,
        )
        for parameter, constraint in (
            (weight, cl.Simplex()),
            (root, cl.Implicit(lambda x: x.square().sum(1) - 1)),
        )
    ]
    for step in range(20):
        grad = normal(100 + step, 3, 4)
        weight.grad, root.grad = grad, 2 * root.detach() * grad
        for optimizer in optimizers:
            optimizer.step()
    assert_same(optimizers[0].state[weight]["position"], root.detach(), 1e-8)
    assert_same(weight.detach(), root.detach().square(), 1e-8)


def test_non_negative_weights_are_the_squares_of_free_ones() -> None:
    start = normal(1, 3, 4).square()
    weight, root = Parameter(start.clone()), Parameter(start.sqrt())
    optimizers = [
        cl.CoLud([{"params": [each], "constraint": constraint}], H, friction=1.0, temperature=0.1, seed=5)
        for each, constraint in ((weight, cl.NonNegative()), (root, cl.Free()))
    ]
    for step in range(20):
        grad = normal(100 + step, 3, 4)
        weight.grad, root.grad = grad, 2 * root.detach() * grad
        for optimizer in optimizers:
            optimizer.step()
    assert_same(weight.detach(), root.detach().square())


def test_degrees_of_freedom_count_slack_and_components() -> None:
    assert cl.Implicit(row_sums).on((3, 4)).degrees_of_freedom == 12 - 3
    assert cl.Implicit(row_norms, inequality=True).on((3, 4)).degrees_of_freedom == 12
    assert (
        cl.Implicit(orthonormal_columns).on((5, 3)).degrees_of_freedom
        == cl.Orthogonal().on((5, 3)).degrees_of_freedom
    )
    assert cl.Implicit(within_radius, inequality=True).on((2, 3)).configuration_shape == (12,)
    assert math.prod(cl.Implicit(unit_determinant).on((3, 3)).configuration_shape) == 9
