"""General constraints: equal to the closed forms where there is one, on the manifold where there is none."""

import copy
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
from colangevin.constraints import Constraint, Manifold, newton
from colangevin.dynamics.letters import drift, kick, ornstein_uhlenbeck
from colangevin.optim.base import ConstrainedOptimizer

TOL = 1e-10
R = 1.3
H = 0.05
DECAY, SCALE = 0.9, 0.3


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# One manifold in two descriptions.


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


def within_radius(w: Tensor) -> Tensor:
    return w.square() - R**2


def row_norms(w: Tensor) -> Tensor:
    return w.square().sum(1) - R**2


def orthonormal_columns(w: Tensor) -> Tensor:
    s = w.shape[1]
    upper = torch.triu_indices(s, s)
    return (w.T @ w - torch.eye(s, dtype=w.dtype))[upper[0], upper[1]]


def spread(x: Tensor) -> Tensor:
    """Rows with their slack last become all rows, then all slacks."""
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
}
GEODESICS = ["circle", "sphere", "sphere-slack"]
ORTHOGONAL = ["orthogonal", "orthogonal-square"]


def assert_same(actual: Tensor, expected: Tensor, tol: float = TOL) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=tol)


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
@pytest.mark.parametrize("name", ORTHOGONAL)
def test_drift_equals_orthogonals_own_rattle(name: str, h: float) -> None:
    pair = PAIRS[name]
    q, p = pair.start()
    q_expected, p_expected = drift(pair.closed, q, p, h)
    q_new, p_new = drift(pair.general, pair.position(q), pair.momentum(q, p), h)
    assert_same(q_new, pair.position(q_expected))
    assert_same(p_new, pair.momentum(q_expected, p_expected))


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_overdamped_step_equals_orthogonals_own(name: str) -> None:
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
    """Along J(q_n) or along J(q_{n+1}): O(h^2) apart, and O(h^3) when the step has no normal part."""
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
@pytest.mark.parametrize("name", ORTHOGONAL)
def test_a_run_of_the_optimizer_equals_orthogonals_own(name: str, splitting: str) -> None:
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


# Landing.


def ellipsoid(w: Tensor) -> Tensor:
    axes = torch.arange(1, w.numel() + 1, dtype=w.dtype).view(w.shape)
    return (axes * w.square()).sum() - 4


def torus(w: Tensor) -> Tensor:
    ring = w[:2].square().sum().sqrt() - 2
    return ring.square() + w[2].square() - 0.25


def unit_determinant(w: Tensor) -> Tensor:
    return torch.linalg.det(w) - 1


def row_sums(w: Tensor) -> Tensor:
    return w.sum(1) - 1


def unit_spectral_norm(w: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(w, 2) - 1


def rows_and_energy(w: Tensor) -> Tensor:
    return torch.cat((w.sum(1), w.square().sum().reshape(1) - 3))


HARD: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "ellipsoid": (ellipsoid, (2, 3)),
    "torus": (torus, (3,)),
    "determinant": (unit_determinant, (3, 3)),
    "row-sums": (row_sums, (3, 4)),
    "spectral-norm": (unit_spectral_norm, (4, 3)),
    "rows-and-energy": (rows_and_energy, (2, 4)),
}


def starting_weight(name: str, dtype: torch.dtype = torch.float64) -> Tensor:
    g, shape = HARD[name]
    weight = normal(11, *shape)
    if name == "determinant":
        weight += 2 * torch.eye(3, dtype=torch.float64)
    if name == "spectral-norm":
        # only the largest singular value is moved, so the others have to be below 1 already
        weight /= 0.8 * torch.linalg.matrix_norm(weight, 2)
    return cl.Implicit(g).init_(weight.to(dtype))


@pytest.mark.parametrize("name", HARD)
def test_init_lands_to_rounding(name: str) -> None:
    g, _ = HARD[name]
    weight = starting_weight(name)
    assert float(g(weight).abs().max()) <= 1e-14
    assert cl.Implicit(g).violation(weight) <= 1e-15


@pytest.mark.parametrize("name", HARD)
def test_projection_lands_to_rounding_and_along_the_jacobian_at_the_start(name: str) -> None:
    g, shape = HARD[name]
    constraint = cl.Implicit(g).on(shape)
    weight = starting_weight(name)
    q = weight.flatten()
    step = normal(12, q.numel())
    q_bar = q + 0.05 * step / step.norm()
    q_new = constraint.project(q.unsqueeze(0), q_bar.unsqueeze(0))[0]
    assert float(g(q_new.view(shape)).abs().max()) <= 1e-14
    assert 0.01 < float((q_new - q).norm()) < 0.1
    J = newton.jacobian(constraint._g, q)
    lam = torch.linalg.lstsq(J.T, (q_bar - q_new).unsqueeze(1)).solution
    assert_same(J.T @ lam, (q_bar - q_new).unsqueeze(1), 1e-14)


def product(w: Tensor) -> Tensor:
    """NaN where an entry is negative."""
    return w.log().sum()


@pytest.mark.parametrize("make", ["colod", "colud"])
def test_a_step_out_of_the_domain_of_g_is_shortened(make: str) -> None:
    parameter = Parameter(torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64))
    group = {"params": [parameter], "constraint": cl.Implicit(product)}
    optimizer = cl.CoLod([group], lr=1.0) if make == "colod" else cl.CoLud([group], lr=1.0, friction=1.0)
    parameter.grad = torch.tensor([0.0, 30.0, 0.0], dtype=torch.float64)
    optimizer.step()
    assert bool((parameter > 0).all())
    assert abs(float(product(parameter.detach()))) <= 1e-14
    assert max(cl.diagnostics.cotangency(optimizer).values(), default=0.0) <= 1e-14


def test_a_shortened_drift_leaves_the_momentum_of_its_chord() -> None:
    """RATTLE with the point that was reached: P + (q' - q_bar)/h = (q' - q)/h, projected at q'."""
    constraint = cl.Implicit(product).on((3,))
    q = torch.tensor([[0.5, 2.0, 1.0]], dtype=torch.float64)
    p = constraint.tangent(q, torch.tensor([[0.0, -30.0, 0.0]], dtype=torch.float64))
    q_new, p_new = constraint.drift(q, p, 1.0)
    assert float((q_new - q).norm()) < 0.5 * float(p.norm())
    assert_same(p_new, constraint.tangent(q_new, q_new - q), 1e-13)


# Hard constraints, for many noisy steps.


def run_noisily(
    optimizer: ConstrainedOptimizer, steps: int, tolerance: float, grad_scale: float = 0.5
) -> list[Tensor]:
    """Steps under random gradients, on the manifold and cotangent after each.

    Returns:
        The weights after each step.
    """
    (parameter,) = optimizer.param_groups[0]["params"]
    path = []
    for step in range(steps):
        parameter.grad = grad_scale * normal(1000 + step, *parameter.shape).to(parameter.dtype)
        optimizer.step()
        assert max(cl.diagnostics.violation(optimizer).values()) <= tolerance
        assert max(cl.diagnostics.cotangency(optimizer).values(), default=0.0) <= tolerance
        path.append(parameter.detach().clone())
    return path


def assert_on_hard_manifold(name: str, method: str, dtype: torch.dtype, steps: int) -> None:
    g, _ = HARD[name]
    parameter = Parameter(starting_weight(name, dtype))
    group = {"params": [parameter], "constraint": cl.Implicit(g)}
    if method == "colod":
        optimizer: ConstrainedOptimizer = cl.CoLod([group], lr=0.02, temperature=0.05, seed=7)
    else:
        optimizer = cl.CoLud([group], lr=0.1, friction=1.0, temperature=0.05, seed=7)
    first = parameter.detach().clone()
    # 32 roundings of q are where a landing is accepted; what |g| they make depends on the size of q
    tolerance = 33 * torch.finfo(dtype).eps
    path = run_noisily(optimizer, steps, tolerance)
    for weight in path:
        largest = max(1.0, float(weight.abs().max()))
        assert float(g(weight).abs().max()) <= 10 * tolerance * largest**3
    assert float((path[-1] - first).norm()) > 0.1


@pytest.mark.parametrize(("name", "method"), [(name, "colud") for name in HARD] + [("torus", "colod")])
def test_two_hundred_noisy_steps_stay_on_a_hard_manifold(name: str, method: str) -> None:
    assert_on_hard_manifold(name, method, torch.float64, steps=200)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("method", ["colod", "colud"])
@pytest.mark.parametrize("name", HARD)
def test_many_noisy_steps_stay_on_a_hard_manifold(name: str, method: str, dtype: torch.dtype) -> None:
    if name == "spectral-norm" and dtype == torch.float32:
        pytest.skip("where two singular values meet, rounding of the weight alone turns the Jacobian")
    assert_on_hard_manifold(name, method, dtype, steps=3000)


@pytest.mark.parametrize("method", ["colod", "colud"])
def test_an_inequality_holds_and_its_slack_changes_sign(method: str) -> None:
    """Passing through xi = 0 is how a weight leaves the bound again."""
    parameter = Parameter(torch.full((1, 2), 0.1, dtype=torch.float64))
    group = {"params": [parameter], "constraint": cl.Implicit(inside_a_disc, inequality=True)}
    if method == "colod":
        optimizer: ConstrainedOptimizer = cl.CoLod([group], lr=0.05, temperature=0.3, seed=8)
    else:
        optimizer = cl.CoLud([group], lr=0.3, friction=1.0, temperature=0.3, seed=8)
    slacks, values = [], []
    for step in range(200):
        parameter.grad = 0.1 * normal(2000 + step, 1, 2)
        optimizer.step()
        slacks.append(float(optimizer.state[parameter]["position"].flatten()[-1]))
        values.append(float(inside_a_disc(parameter.detach())))
        assert max(cl.diagnostics.violation(optimizer).values()) <= 1e-14
    assert max(values) <= 1e-15
    assert max(values) > -0.05, "the bound was never approached"
    changes = sum(a * b < 0 for a, b in itertools.pairwise(slacks))
    assert changes >= 3


def inside_a_disc(w: Tensor) -> Tensor:
    return w.square().sum().reshape(1) - 1


# Failures.


def everything(optimizer: ConstrainedOptimizer) -> tuple[list[Tensor], list[Tensor], dict[str, object]]:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return (
        [parameter.detach().clone() for parameter in parameters],
        [parameter.grad.clone() for parameter in parameters],
        copy.deepcopy(optimizer.state_dict()),
    )


def assert_unchanged(
    optimizer: ConstrainedOptimizer, before: tuple[list[Tensor], list[Tensor], dict[str, object]]
) -> None:
    now = everything(optimizer)
    for old, new in zip(before[:2], now[:2], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(old, new, strict=True))
    assert now[2]["param_groups"] == before[2]["param_groups"]
    old_state, new_state = before[2]["state"], now[2]["state"]
    assert old_state.keys() == new_state.keys()
    for key, values in old_state.items():
        assert values.keys() == new_state[key].keys()
        for name, value in values.items():
            other = new_state[key][name]
            assert torch.equal(value, other) if isinstance(value, Tensor) else value == other


class Breakable:
    """The unit sphere, until it is broken: then a function without a zero."""

    def __init__(self) -> None:
        self.broken = False

    def __call__(self, w: Tensor) -> Tensor:
        return w.square().sum() + 1 if self.broken else w.square().sum() - 1


def bystanders() -> list[dict[str, object]]:
    """Groups before and after which the failing one stands: none of them may move either."""
    orthogonal = cl.Orthogonal().on((4, 3)).lift(normal(21, 1, 4, 3))[0]
    return [
        {"params": [Parameter(normal(22, 3))]},
        {"params": [Parameter(0.1 * torch.tanh(normal(23, 3)))], "constraint": cl.Circle(0.1)},
        {"params": [Parameter(orthogonal)], "constraint": cl.Orthogonal()},
        {
            "params": [Parameter(torch.tensor([0.6, 0.8], dtype=torch.float64))],
            "constraint": cl.Implicit(inside_a_disc, inequality=True),
        },
    ]


METHODS: dict[str, Callable[[list[dict[str, object]]], ConstrainedOptimizer]] = {
    "colod": lambda groups: cl.CoLod(groups, lr=0.1, temperature=0.01, seed=9),
    "colud": lambda groups: cl.CoLud(groups, lr=0.1, friction=1.0, temperature=0.01, seed=9),
    "sgd": lambda groups: cl.ConstrainedSGD(groups, lr=0.1, momentum=0.9, temperature=0.01, seed=9),
}


def give_gradients(optimizer: ConstrainedOptimizer, seed: int) -> None:
    for i, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            parameter.grad = normal(seed + i, *parameter.shape)


@pytest.mark.parametrize(("method", "steps_before"), [("colod", 0), ("colod", 3), ("colud", 0), ("colud", 3)])
def test_a_step_that_cannot_land_changes_nothing(method: str, steps_before: int) -> None:
    g = Breakable()
    sphere = Parameter(torch.tensor([0.6, 0.8, 0.0], dtype=torch.float64))
    groups = bystanders()
    groups.insert(2, {"params": [("ball", sphere)], "constraint": cl.Implicit(g)})
    for number, group in enumerate(groups):
        group["params"] = [
            pair if isinstance(pair, tuple) else (f"other-{number}", pair) for pair in group["params"]
        ]
    optimizer = METHODS[method](groups)
    for step in range(steps_before):
        give_gradients(optimizer, 30 + step)
        optimizer.step()
    give_gradients(optimizer, 40)
    before = everything(optimizer)
    g.broken = True
    # before its first step a weight is only lifted, and a weight that is off its manifold says so
    expected = cl.ConvergenceError if steps_before else cl.InfeasibleError
    reason = r"no point with g = 0 .*\|g\|.*reduce lr" if steps_before else "is violated"
    with pytest.raises(expected, match=rf"parameter 'ball' \(3,\): .*{reason}"):
        optimizer.step()
    assert_unchanged(optimizer, before)
    g.broken = False
    optimizer.step()
    assert max(cl.diagnostics.violation(optimizer).values()) <= 1e-14


def test_a_failure_after_a_second_gradient_undoes_the_whole_step() -> None:
    """OABA drifts, asks for a gradient, kicks and drifts again: the second drift cannot land."""
    g = Breakable()
    sphere = Parameter(torch.tensor([0.6, 0.8, 0.0], dtype=torch.float64))
    optimizer = cl.CoLud(
        [*bystanders(), {"params": [sphere], "constraint": cl.Implicit(g)}],
        lr=0.1,
        friction=1.0,
        temperature=0.01,
        splitting="OABA",
        seed=10,
    )
    calls = []

    def closure() -> None:
        calls.append(None)
        give_gradients(optimizer, 60)
        g.broken = len(calls) == 4

    optimizer.step(closure)
    before = everything(optimizer)
    with pytest.raises(cl.ConvergenceError):
        optimizer.step(closure)
    assert len(calls) == 4
    assert_unchanged(optimizer, before)


def squared_sphere(w: Tensor) -> Tensor:
    """The unit sphere by a function whose gradient vanishes on it."""
    return (w.square().sum() - 1).square()


def whole_gram_matrix(w: Tensor) -> Tensor:
    """Every off-diagonal entry twice."""
    return w.T @ w - torch.eye(w.shape[1], dtype=w.dtype)


def figure_eight(w: Tensor) -> Tensor:
    """A curve that crosses itself at the origin."""
    x, y = w
    return (x.square() + y.square()).square() - (x.square() - y.square())


SINGULAR: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "vanishing gradient": (squared_sphere, torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)),
    "redundant components": (whole_gram_matrix, torch.eye(4, 2, dtype=torch.float64)),
    "crossing": (figure_eight, torch.zeros(2, dtype=torch.float64)),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SINGULAR)
def test_a_jacobian_without_full_rank_is_an_error_that_says_so(name: str, method: str) -> None:
    g, weight = SINGULAR[name]
    groups = [*bystanders(), {"params": [Parameter(weight.clone())], "constraint": cl.Implicit(g)}]
    optimizer = METHODS[method](groups)
    give_gradients(optimizer, 70)
    before = everything(optimizer)
    with pytest.raises(cl.ConvergenceError, match=r"Jacobian has rank \d for \d components.*redundant"):
        optimizer.step()
    assert_unchanged(optimizer, before)


def test_projecting_a_momentum_at_a_singular_point_is_an_error() -> None:
    J = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], dtype=torch.float64)
    with pytest.raises(cl.ConvergenceError, match="rank 1 for 2 components"):
        newton.cotangent(J, torch.ones(3, dtype=torch.float64), "g")


def test_nearly_parallel_components_still_project_to_rounding() -> None:
    """The normal equations square J's condition number, here 1e5; the second pass takes the square out."""
    J = torch.cat((normal(24, 1, 5), normal(24, 1, 5) + 1e-5 * normal(25, 1, 5)))
    p = normal(26, 5)
    projected = newton.cotangent(J, p, "g")
    assert float((J @ projected).abs().max()) <= 1e-14
    _, _, V = torch.linalg.svd(J)
    assert_same(projected, V[2:].T @ (V[2:] @ p), 1e-9)


# Replicas.


def replica_groups(name: str, replicas: int) -> tuple[Tensor, list[Tensor]]:
    weights = []
    g, shape = HARD[name]
    for seed in range(replicas):
        weights.append(cl.Implicit(g).init_(normal(80 + seed, *shape)))
    return torch.stack(weights), weights


@pytest.mark.parametrize("method", ["colod", "colud"])
def test_replicas_move_as_they_would_alone(method: str) -> None:
    stack, weights = replica_groups("ellipsoid", 3)
    constraint = cl.Implicit(ellipsoid)

    def make(parameter: Parameter, replicas: int) -> ConstrainedOptimizer:
        group = {"params": [parameter], "constraint": constraint, "replicas": replicas}
        if method == "colod":
            return cl.CoLod([group], lr=0.1)
        return cl.CoLud([group], lr=0.1, friction=0.5)

    together = Parameter(stack.clone())
    alone = [Parameter(weight.clone()) for weight in weights]
    optimizers = [make(together, 3), *(make(parameter, 0) for parameter in alone)]
    for step in range(10):
        together.grad = normal(90 + step, *stack.shape)
        for parameter, grad in zip(alone, together.grad, strict=True):
            parameter.grad = grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(together.detach(), torch.stack([parameter.detach() for parameter in alone]))


def test_replicas_with_noise_go_separate_ways_on_one_manifold() -> None:
    weight = cl.Implicit(inside_a_disc).init_(normal(95, 2))
    parameter = Parameter(torch.stack([0.5 * weight] * 3))
    group = {
        "params": [parameter],
        "constraint": cl.Implicit(inside_a_disc, inequality=True),
        "replicas": 3,
    }
    optimizer = cl.CoLud([group], lr=0.1, friction=1.0, temperature=0.1, seed=11)
    run_noisily(optimizer, 50, 1e-14)
    distances = torch.pdist(parameter.detach())
    assert float(distances.min()) > 0.01
    assert float(parameter.detach().norm(dim=1).max()) <= 1 + 1e-15
    assert optimizer.state[parameter]["position"].shape == (3, 3)


def test_one_replica_that_cannot_land_stops_all() -> None:
    """One of three stands where the curve crosses itself."""
    safe = cl.Implicit(figure_eight).init_(torch.tensor([0.9, 0.2], dtype=torch.float64))
    parameter = Parameter(torch.stack((safe, torch.zeros(2, dtype=torch.float64), safe)))
    group = {"params": [parameter], "constraint": cl.Implicit(figure_eight), "replicas": 3}
    optimizer = cl.CoLud([group], lr=0.1, friction=1.0)
    parameter.grad = normal(96, 3, 2)
    before = everything(optimizer)
    with pytest.raises(cl.ConvergenceError, match="rank 0 for 1 components"):
        optimizer.step()
    assert_unchanged(optimizer, before)


def test_degrees_of_freedom_count_slack_and_components() -> None:
    assert cl.Implicit(row_sums).on((3, 4)).degrees_of_freedom == 12 - 3
    assert cl.Implicit(row_norms, inequality=True).on((3, 4)).degrees_of_freedom == 12
    assert (
        cl.Implicit(orthonormal_columns).on((5, 3)).degrees_of_freedom
        == cl.Orthogonal().on((5, 3)).degrees_of_freedom
    )
    assert cl.Implicit(within_radius, inequality=True).on((2, 3)).configuration_shape == (12,)
    assert math.prod(cl.Implicit(unit_determinant).on((3, 3)).configuration_shape) == 9
