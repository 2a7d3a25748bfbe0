"""The library beside the line-by-line transcriptions of the paper: same q, p, gradients, noise; float64.

Every case holds the reference's own variables as a tuple ``x`` and says how they map to the library's (q, p)
and how the paper's noise maps to the library's. Agreement is asserted after every step of a run of 100, to
1e-12: rounding is 1e-16 a step and the given gradients do not amplify it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import colangevin as cl
from colangevin.constraints import Constraint
from colangevin.dynamics.letters import drift, kick, ornstein_uhlenbeck
from colangevin.dynamics.overdamped import Overdamped
from colangevin.dynamics.rates import langevin_rates, sgd_rates
from colangevin.dynamics.splitting import parse
from colangevin.dynamics.underdamped import Underdamped
from tests.reference import (
    circle_overdamped,
    circle_underdamped,
    free,
    general,
    orthogonal_overdamped,
    orthogonal_underdamped,
    sphere,
)

TOL = 1e-12
STEPS = 100
H = 0.05  # h |P| stays near 0.1: there the paper's fixed loop gains a factor 10 an iteration
GAMMA = 0.7
TAU = 0.3
ITERATIONS = 40

ORDERS = ["OBA", "BOA", "BAOAB"]

Variables = tuple[Tensor, ...]


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@dataclass(frozen=True)
class Case:
    """A constraint, a weight, and the paper's method for it in the reference's variables x.

    All of ``position``, ``momentum`` and the noise maps return what the library calls one copy: no stack.
    """

    constraint: Constraint
    weight: Tensor
    noise_shape: tuple[int, ...]
    start: Callable[[Tensor], Variables]  # a weight at rest, slack positive
    shove: Callable[[Variables, Tensor], Variables]  # a momentum from noise
    step_a: Callable[[Variables, float], Variables]
    step_b: Callable[[Variables, Tensor, float], Variables]
    step_o: Callable[[Variables, float, float, float, Tensor], Variables]
    overdamped: Callable[[Variables, Tensor, float, float, Tensor], Variables]
    position: Callable[[Variables], Tensor]
    momentum: Callable[[Variables], Tensor]
    kick_noise: Callable[[Variables, Tensor], Tensor]  # the paper's noise of O in the library's coordinates
    euler_noise: Callable[[Tensor], Tensor]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.weight.shape)

    @property
    def bound(self) -> Constraint:
        return self.constraint.on(self.shape)


def circle_case(shape: tuple[int, ...], r: float | Tensor, seed: int) -> Case:
    """theta = r sin beta, xi = r cos beta, p_c = omega xi, p_xi = -omega theta; noise (R_c, R_xi) last."""
    weight = (2 * torch.rand(shape, generator=torch.Generator().manual_seed(seed)).double() - 1) * 0.9 * r

    def start(w: Tensor) -> Variables:
        return w, torch.sqrt(r**2 - w**2), torch.zeros_like(w), torch.zeros_like(w)

    return Case(
        constraint=cl.Circle(r),
        weight=weight,
        noise_shape=(*shape, 2),
        start=start,
        shove=lambda x, noise: circle_underdamped.project(*x[:2], noise[..., 0], noise[..., 1], r),
        step_a=lambda x, h: circle_underdamped.step_a(*x, h, r),
        step_b=lambda x, grad, h: circle_underdamped.step_b(*x, grad, h, r),
        step_o=lambda x, h, gamma, tau, noise: circle_underdamped.step_o(
            *x, h, gamma, tau, r, noise[..., 0], noise[..., 1]
        ),
        overdamped=lambda x, grad, h, tau, noise: (
            *circle_overdamped.step(*x[:2], grad, h, tau, r, noise[..., 0], noise[..., 1]),
            *x[2:],
        ),
        position=lambda x: torch.atan2(x[0], x[1]),
        momentum=lambda x: (x[1] * x[2] - x[0] * x[3]) / r**2,
        kick_noise=lambda x, noise: (x[1] * noise[..., 0] - x[0] * noise[..., 1]) / r,
        euler_noise=lambda noise: noise,
    )


def sphere_case(shape: tuple[int, ...], r: float | Tensor, slack: bool, seed: int) -> Case:
    rows, n = shape[0], math.prod(shape[1:])
    column = r.unsqueeze(1) if isinstance(r, Tensor) else r
    weight = normal(torch.Generator().manual_seed(seed), rows, n)
    weight = column * weight / weight.norm(dim=1, keepdim=True) * (0.8 if slack else 1.0)

    def start(w: Tensor) -> Variables:
        q = w.view(rows, n)
        if slack:
            q = torch.cat((q, torch.sqrt(column**2 - q.square().sum(1, keepdim=True))), dim=1)
        return q, torch.zeros_like(q)

    def covector(grad: Tensor) -> Tensor:
        grad = grad.view(rows, n)
        return torch.cat((grad, grad.new_zeros(rows, 1)), dim=1) if slack else grad

    return Case(
        constraint=cl.Sphere(r, slack=slack),
        weight=weight.view(shape),
        noise_shape=(rows, n + slack),
        start=start,
        shove=lambda x, noise: sphere.project(x[0], noise, column),
        step_a=lambda x, h: sphere.step_a(*x, h, column),
        step_b=lambda x, grad, h: sphere.step_b(*x, covector(grad), h, column),
        step_o=lambda x, h, gamma, tau, noise: sphere.step_o(*x, h, gamma, tau, column, noise),
        overdamped=lambda x, grad, h, tau, noise: (
            sphere.overdamped(x[0], covector(grad), h, tau, column, noise),
            x[1],
        ),
        position=lambda x: x[0],
        momentum=lambda x: x[1],
        kick_noise=lambda x, noise: noise,
        euler_noise=lambda noise: noise,
    )


def free_case(shape: tuple[int, ...], seed: int) -> Case:
    return Case(
        constraint=cl.Free(),
        weight=normal(torch.Generator().manual_seed(seed), *shape),
        noise_shape=shape,
        start=lambda w: (w, torch.zeros_like(w)),
        shove=lambda x, noise: (x[0], noise),
        step_a=lambda x, h: free.step_a(*x, h),
        step_b=lambda x, grad, h: free.step_b(*x, grad, h),
        step_o=lambda x, h, gamma, tau, noise: free.step_o(*x, h, gamma, tau, noise),
        overdamped=lambda x, grad, h, tau, noise: (free.overdamped(x[0], grad, h, tau, noise), x[1]),
        position=lambda x: x[0],
        momentum=lambda x: x[1],
        kick_noise=lambda x, noise: noise,
        euler_noise=lambda noise: noise,
    )


def orthogonal_case(shape: tuple[int, ...], seed: int) -> Case:
    rows, columns = shape[0], math.prod(shape[1:])
    tall = (max(rows, columns), min(rows, columns))
    Q, _ = torch.linalg.qr(normal(torch.Generator().manual_seed(seed), *tall))

    def natural(matrix: Tensor) -> Tensor:
        """From tall to the weight's own orientation, or back."""
        return matrix if rows >= columns else matrix.T

    def covector(w: Tensor) -> Tensor:
        return natural(w.reshape(rows, columns))

    return Case(
        constraint=cl.Orthogonal(),
        weight=natural(Q).reshape(shape),
        noise_shape=tall,
        start=lambda w: (covector(w), torch.zeros(tall, dtype=torch.float64)),
        shove=lambda x, noise: orthogonal_underdamped.project(x[0], noise),
        step_a=lambda x, h: orthogonal_underdamped.step_a(*x, h, ITERATIONS),
        step_b=lambda x, grad, h: orthogonal_underdamped.step_b(*x, covector(grad), h),
        step_o=lambda x, h, gamma, tau, noise: orthogonal_underdamped.step_o(*x, h, gamma, tau, noise),
        overdamped=lambda x, grad, h, tau, noise: (
            orthogonal_overdamped.step(x[0], covector(grad), h, tau, noise, ITERATIONS),
            x[1],
        ),
        position=lambda x: natural(x[0]),
        momentum=lambda x: natural(x[1]),
        kick_noise=lambda x, noise: natural(noise),
        euler_noise=natural,
    )


def implicit_case(c: Callable[[Tensor], Tensor], inequality: bool, weight: Tensor) -> Case:
    """Any c(w) = 0, or c(w) <= 0 by c(w) + xi^2 = 0 with q = (w, xi)."""
    shape, n = weight.shape, weight.numel()
    slacks = c(weight).numel() if inequality else 0

    def g(q: Tensor) -> Tensor:
        value = c(q[:n].view(shape)).reshape(-1)
        return value + q[n:] ** 2 if inequality else value

    def start(w: Tensor) -> Variables:
        q = w.flatten()
        if inequality:
            q = torch.cat((q, torch.sqrt(-c(w).reshape(-1))))
        return q, torch.zeros_like(q)

    def covector(grad: Tensor) -> Tensor:
        return torch.cat((grad.flatten(), grad.new_zeros(slacks)))

    return Case(
        constraint=cl.Implicit(c, inequality),
        weight=weight,
        noise_shape=(n + slacks,),
        start=start,
        shove=lambda x, noise: general.project(g, x[0], noise),
        step_a=lambda x, h: general.step_a(g, *x, h),
        step_b=lambda x, grad, h: general.step_b(g, *x, covector(grad), h),
        step_o=lambda x, h, gamma, tau, noise: general.step_o(g, *x, h, gamma, tau, noise),
        overdamped=lambda x, grad, h, tau, noise: (
            general.overdamped(g, x[0], covector(grad), h, tau, noise),
            x[1],
        ),
        position=lambda x: x[0],
        momentum=lambda x: x[1],
        kick_noise=lambda x, noise: noise,
        euler_noise=lambda noise: noise,
    )


def ellipsoid_and_plane(w: Tensor) -> Tensor:
    axes = torch.tensor([1.0, 2.0, 0.5, 1.5, 1.0, 3.0], dtype=w.dtype).view(w.shape)
    return torch.stack(((axes * w.square()).sum() - 4, w.sum() - 0.3))


def row_energy_and_box(w: Tensor) -> Tensor:
    """Two rows with |row|^2 <= 2, and w_00 + w_11 <= 1.5."""
    return torch.cat((w.square().sum(1) - 2, (w[0, 0] + w[1, 1] - 1.5).reshape(1)))


def on_the_ellipsoid() -> Tensor:
    start = normal(torch.Generator().manual_seed(8), 2, 3)
    return cl.Implicit(ellipsoid_and_plane).init_(start)


RADII = torch.linspace(0.5, 2.0, 12, dtype=torch.float64)

CASES = {
    "circle": circle_case((3, 4), 0.7, seed=1),
    "circle-radii": circle_case((3, 4), RADII.view(3, 4), seed=2),
    "sphere": sphere_case((3, 4), 1.3, slack=False, seed=3),
    "sphere-slack": sphere_case((3, 4), 1.3, slack=True, seed=4),
    "sphere-conv-radii": sphere_case((4, 2, 3, 3), RADII[::3], slack=True, seed=5),
    "free": free_case((5,), seed=6),
    "orthogonal-tall": orthogonal_case((6, 3), seed=7),
    "orthogonal-square": orthogonal_case((4, 4), seed=8),
    "orthogonal-wide": orthogonal_case((3, 7), seed=9),
    "orthogonal-conv": orthogonal_case((3, 2, 2, 2), seed=10),
    "orthogonal-column": orthogonal_case((4, 1), seed=11),
    "implicit": implicit_case(ellipsoid_and_plane, False, on_the_ellipsoid()),
    "implicit-slack": implicit_case(row_energy_and_box, True, torch.full((2, 3), 0.4, dtype=torch.float64)),
}
# Newton on general constraints takes most of the time: they go through fewer of the tests.
CLOSED_FORMS = [name for name in CASES if not name.startswith("implicit")]


def forces(case: Case, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Gradient and noise of each step."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(STEPS):
        yield normal(generator, *case.shape), normal(generator, *case.noise_shape)


def assert_same(actual: Tensor, expected: Tensor) -> None:
    assert actual.shape == expected.shape
    assert torch.allclose(actual, expected, rtol=0, atol=TOL), float((actual - expected).abs().max())


def assert_same_point(case: Case, q: Tensor, p: Tensor | None, x: Variables) -> None:
    """Compare one copy of the library's q and p with the reference's variables."""
    if isinstance(case.constraint, cl.Circle):
        # angles are equal modulo a turn
        expected = case.position(x)
        assert_same(torch.sin(q), torch.sin(expected))
        assert_same(torch.cos(q), torch.cos(expected))
    else:
        assert_same(q, case.position(x))
    if p is not None:
        assert_same(p, case.momentum(x))


def reference_step(
    case: Case, x: Variables, letters: str, h: float, gamma: float, tau: float, grad: Tensor, noise: Tensor
) -> tuple[Variables, Tensor]:
    """Run a string in which each B takes all of h at once and A and O share it; one O only.

    Returns:
        The new variables, and the noise in the coordinates that the library has at its O.
    """
    drifts = letters.count("A")
    given = noise
    for letter in letters:
        if letter == "A":
            x = case.step_a(x, h / drifts)
        elif letter == "B":
            x = case.step_b(x, grad, h)
        else:
            given = case.kick_noise(x, noise)
            x = case.step_o(x, h, gamma, tau, noise)
    return x, given


def moving_start(case: Case) -> tuple[Variables, Tensor, Tensor]:
    """A start with momentum, for the reference and as a stack of one for the library."""
    x = case.start(case.weight)
    x = case.shove(x, 0.5 * normal(torch.Generator().manual_seed(99), *case.noise_shape))
    return x, case.position(x).unsqueeze(0), case.momentum(x).unsqueeze(0)


# The pure steps.


def test_baoa_and_baoab_are_one_string() -> None:
    assert parse("BAOA").segments == parse("BAOAB").segments


@pytest.mark.parametrize("name", CASES)
def test_overdamped_step_is_the_papers(name: str) -> None:
    case = CASES[name]
    x = case.start(case.weight)
    q = case.position(x).unsqueeze(0)
    dynamics = Overdamped(H, TAU / 10)
    for grad, noise in forces(case, seed=1):
        x = case.overdamped(x, grad, H, TAU / 10, noise)
        q = dynamics.step(case.bound, q, grad.unsqueeze(0), [case.euler_noise(noise).unsqueeze(0)])
        assert_same_point(case, q[0], None, x)
    assert not torch.allclose(case.position(x), case.position(case.start(case.weight)), atol=0.01)


@pytest.mark.parametrize(
    ("name", "order"),
    [(name, order) for name in CLOSED_FORMS for order in ORDERS]
    + [("implicit", "OBA"), ("implicit", "BAOAB"), ("implicit-slack", "BOA")],
)
def test_underdamped_step_is_the_papers(name: str, order: str) -> None:
    case = CASES[name]
    x, q, p = moving_start(case)
    dynamics = Underdamped(parse(order), langevin_rates(H, GAMMA, TAU))
    assert dynamics.segments == 1
    letters = order.removesuffix("B")  # BAOAB with its neighbouring half kicks in one is B A O A
    for grad, noise in forces(case, seed=2):
        x, given = reference_step(case, x, letters, H, GAMMA, TAU, grad, noise)
        q, p = dynamics.step(case.bound, q, p, grad.unsqueeze(0), [given.unsqueeze(0)])
        assert_same_point(case, q[0], p[0], x)


@pytest.mark.parametrize("name", [*CLOSED_FORMS, "implicit-slack"])
def test_abo_letter_by_letter_is_the_papers(name: str) -> None:
    case = CASES[name]
    x, q, p = moving_start(case)
    decay, scale = langevin_rates(H, GAMMA, TAU).ornstein_uhlenbeck(1)
    for grad, noise in forces(case, seed=3):
        x = case.step_a(x, H)
        q, p = drift(case.bound, q, p, H)
        assert_same_point(case, q[0], p[0], x)
        x = case.step_b(x, grad, H)
        p = kick(case.bound, q, p, grad.unsqueeze(0), H)
        assert_same_point(case, q[0], p[0], x)
        given = case.kick_noise(x, noise).unsqueeze(0)
        x = case.step_o(x, H, GAMMA, TAU, noise)
        p = ornstein_uhlenbeck(case.bound, q, p, decay, scale, given)
        assert_same_point(case, q[0], p[0], x)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_abo_in_two_segments_is_the_papers(name: str) -> None:
    case = CASES[name]
    x, q, p = moving_start(case)
    dynamics = Underdamped(parse("ABO"), langevin_rates(H, GAMMA, TAU))
    assert dynamics.segments == 2
    for grad, noise in forces(case, seed=4):
        x, given = reference_step(case, x, "ABO", H, GAMMA, TAU, grad, noise)
        q, p = dynamics.step(case.bound, q, p, grad.unsqueeze(0), [], 0)
        q, p = dynamics.step(case.bound, q, p, grad.unsqueeze(0), [given.unsqueeze(0)], 1)
        assert_same_point(case, q[0], p[0], x)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_sgd_scale_is_the_papers_with_a_rescaled_momentum(name: str) -> None:
    case = CASES[name]
    x, q, p = moving_start(case)
    lr, momentum = H**2, math.exp(-GAMMA * H)
    dynamics = Underdamped(parse("OBA"), sgd_rates(lr, momentum, TAU))
    m = p / math.sqrt(lr)
    for grad, noise in forces(case, seed=5):
        x, given = reference_step(case, x, "OBA", H, GAMMA, TAU, grad, noise)
        q, m = dynamics.step(case.bound, q, m, grad.unsqueeze(0), [given.unsqueeze(0)])
        assert_same_point(case, q[0], math.sqrt(lr) * m[0], x)


# The optimizers, with the noise they draw replaced by given noise.


@pytest.fixture
def given_noise(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Noise that the optimizers draw next, first in first out, one tensor for each key."""
    queue: list[Tensor] = []

    def take(
        keys: list[int],
        shape: tuple[int, ...],
        *,
        dtype: torch.dtype,
        device: torch.device,
        skip: int = 0,
        out: Tensor | None = None,
    ) -> Tensor:
        drawn = torch.stack([queue.pop(0) for _ in keys])
        assert skip == 0
        if len(shape) == 1:  # the elements of a weight that is walked through in one line
            drawn = drawn.flatten(1)
        assert drawn.shape == (len(keys), *shape)
        assert (drawn.dtype, drawn.device) == (dtype, device)
        return drawn

    monkeypatch.setattr("colangevin.step.plain.normal", take)
    monkeypatch.setattr("colangevin.step.block_noise.normal", take)
    return queue


def parameter_of(case: Case) -> torch.nn.Parameter:
    return torch.nn.Parameter(case.weight.clone())


def assert_same_state(
    case: Case, optimizer: cl.CoLod | cl.CoLud | cl.ConstrainedSGD, x: Variables, scale: float = 1.0
) -> None:
    """Compare the weight, and the position and momentum where the optimizer keeps them."""
    (parameter,) = optimizer.param_groups[0]["params"]
    state = optimizer.state[parameter]
    q = case.position(x).unsqueeze(0)
    assert_same(parameter.detach(), case.bound.lower(q)[0])
    stored = state.get("position", q).reshape(q.shape)
    momentum = scale * state["momentum"].reshape(q.shape)[0] if "momentum" in state else None
    assert_same_point(case, stored[0], momentum, x)
    assert ("position" in state) == case.bound.hidden


@pytest.mark.parametrize(
    ("name", "tau"),
    [(name, tau) for name in CLOSED_FORMS for tau in (0.0, TAU / 10)] + [("implicit", TAU / 10)],
)
def test_colod_is_the_papers_overdamped_method(name: str, tau: float, given_noise: list[Tensor]) -> None:
    case = CASES[name]
    x, parameter = case.start(case.weight), parameter_of(case)
    optimizer = cl.CoLod([{"params": [parameter], "constraint": case.constraint}], lr=H, temperature=tau)
    for grad, noise in forces(case, seed=6):
        x = case.overdamped(x, grad, H, tau, noise)
        given_noise[:] = [case.euler_noise(noise)] if tau else []
        parameter.grad = grad.clone()
        optimizer.step()
        assert_same_state(case, optimizer, x)
        assert torch.equal(parameter.grad, grad)
    assert given_noise == []


@pytest.mark.parametrize(
    ("name", "order"),
    [(name, order) for name in CLOSED_FORMS for order in ORDERS] + [("implicit-slack", "BAOAB")],
)
def test_colud_is_the_papers_underdamped_method(name: str, order: str, given_noise: list[Tensor]) -> None:
    case = CASES[name]
    x, parameter = case.start(case.weight), parameter_of(case)
    optimizer = cl.CoLud(
        [{"params": [parameter], "constraint": case.constraint}],
        lr=H,
        friction=GAMMA,
        temperature=TAU,
        splitting=order,
    )
    letters = order.removesuffix("B")
    for grad, noise in forces(case, seed=7):
        x, given = reference_step(case, x, letters, H, GAMMA, TAU, grad, noise)
        given_noise[:] = [given]
        parameter.grad = grad.clone()
        optimizer.step()
        assert_same_state(case, optimizer, x)
        assert torch.equal(parameter.grad, grad)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_colud_with_a_closure_is_the_papers_abo(name: str, given_noise: list[Tensor]) -> None:
    case = CASES[name]
    x, parameter = case.start(case.weight), parameter_of(case)
    optimizer = cl.CoLud(
        [{"params": [parameter], "constraint": case.constraint}],
        lr=H,
        friction=GAMMA,
        temperature=TAU,
        splitting="ABO",
    )
    slope = normal(torch.Generator().manual_seed(8), *case.shape)

    def closure() -> Tensor:
        # a gradient that depends on the position, so that one from before the drift would be noticed
        optimizer.zero_grad()
        loss = (slope * parameter + parameter.square()).sum()
        loss.backward()
        return loss

    for _, noise in forces(case, seed=8):
        x = case.step_a(x, H)
        moved = case.bound.lower(case.position(x).unsqueeze(0))[0]
        x, given = reference_step(case, x, "BO", H, GAMMA, TAU, slope + 2 * moved, noise)
        given_noise[:] = [given]
        optimizer.step(closure)
        assert_same_state(case, optimizer, x)


@pytest.mark.parametrize(
    ("name", "tau"),
    [(name, tau) for name in CLOSED_FORMS for tau in (0.0, TAU)] + [("implicit", 0.0)],
)
def test_constrained_sgd_with_momentum_is_the_papers_oba(
    name: str, tau: float, given_noise: list[Tensor]
) -> None:
    case = CASES[name]
    x, parameter = case.start(case.weight), parameter_of(case)
    lr, momentum = 0.002, 0.96
    h, gamma = math.sqrt(lr), -math.log(momentum) / math.sqrt(lr)
    optimizer = cl.ConstrainedSGD(
        [{"params": [parameter], "constraint": case.constraint}], lr=lr, momentum=momentum, temperature=tau
    )
    for grad, noise in forces(case, seed=9):
        x, given = reference_step(case, x, "OBA", h, gamma, tau, grad, noise)
        given_noise[:] = [given] if tau else []
        parameter.grad = grad.clone()
        optimizer.step()
        assert_same_state(case, optimizer, x, scale=h)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_constrained_sgd_without_momentum_is_the_papers_overdamped_method(
    name: str, given_noise: list[Tensor]
) -> None:
    case = CASES[name]
    x, parameter = case.start(case.weight), parameter_of(case)
    optimizer = cl.ConstrainedSGD(
        [{"params": [parameter], "constraint": case.constraint}], lr=H, temperature=TAU / 10
    )
    for grad, noise in forces(case, seed=10):
        x = case.overdamped(x, grad, H, TAU / 10, noise)
        given_noise[:] = [case.euler_noise(noise)]
        parameter.grad = grad.clone()
        optimizer.step()
        assert_same_state(case, optimizer, x)


def test_stacked_parameters_and_replicas_each_follow_the_papers_method(given_noise: list[Tensor]) -> None:
    """Two weights of one shape and three replicas of it: five matrices in two batched calls."""
    cases = [orthogonal_case((3, 7), seed) for seed in range(20, 25)]
    single = [parameter_of(case) for case in cases[:2]]
    replicas = torch.nn.Parameter(torch.stack([case.weight for case in cases[2:]]))
    optimizer = cl.CoLud(
        [
            {"params": single, "constraint": cl.Orthogonal()},
            {"params": [replicas], "constraint": cl.Orthogonal(), "replicas": 3},
        ],
        lr=H,
        friction=GAMMA,
        temperature=TAU,
    )
    points = [case.start(case.weight) for case in cases]
    for steps in zip(*(forces(case, seed) for seed, case in enumerate(cases)), strict=True):
        for i, (grad, noise) in enumerate(steps):
            points[i], _ = reference_step(cases[i], points[i], "OBA", H, GAMMA, TAU, grad, noise)
        given_noise[:] = [noise.T for _, noise in steps]
        for parameter, (grad, _) in zip(single, steps[:2], strict=True):
            parameter.grad = grad.clone()
        replicas.grad = torch.stack([grad for grad, _ in steps[2:]])
        optimizer.step()
    weights = [*(parameter.detach() for parameter in single), *replicas.detach()]
    momenta = [*(optimizer.state[parameter]["momentum"] for parameter in single)]
    momenta += [*optimizer.state[replicas]["momentum"]]
    for weight, momentum, (Q, P) in zip(weights, momenta, points, strict=True):
        assert_same(weight, Q.T)
        assert_same(momentum, P.T)
