"""ConstrainedAdam and ConstrainedMuon take the transcribed steps, for every constraint."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim_db import sphere_and_plane
from tests.reference import adam, general, muon, orthogonal_underdamped, sphere

STEPS = 12
LR = 0.05
BETAS, EPS, DECAY = (0.8, 0.95), 1e-6, 0.3
MOMENTUM = 0.9
ITERATIONS = 60
TOLERANCE = 1e-10  # float64; a quotient of Adam magnifies the rounding of a small gradient


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@dataclass(frozen=True)
class Geometry:
    """A constraint, a weight, and the transcribed geometry in coordinates q of one copy."""

    constraint: cl.Constraint
    weight: Tensor
    lift: Callable[[Tensor], Tensor]
    lower: Callable[[Tensor], Tensor]
    covector: Callable[[Tensor], Tensor]
    project: adam.Project
    drift: adam.Drift
    direction: muon.Direction


def flat_matrix(shape: tuple[int, ...]) -> muon.Direction:
    """msign of the weight that a flat vector begins with; slack behind it gets nothing."""
    n = math.prod(shape)

    def direction(q: Tensor, m: Tensor) -> Tensor:
        d = muon.msign(m[:n].reshape(shape[0], -1)).reshape(-1)
        return torch.cat((d, m.new_zeros(len(m) - n)))

    return direction


def rows(slack: bool) -> Geometry:
    r, generator = 1.5, torch.Generator().manual_seed(1)
    weight = r * nn.functional.normalize(normal(generator, 4, 3), dim=1) * (0.6 if slack else 1)

    def project(q: Tensor, p: Tensor) -> Tensor:
        return sphere.project(q, p, r)[1]

    def lift(w: Tensor) -> Tensor:
        return torch.cat((w, (r**2 - w.square().sum(1, keepdim=True)).sqrt()), 1) if slack else w

    return Geometry(
        cl.Sphere(r, slack=slack),
        weight,
        lift,
        lambda q: q[:, :3],
        lambda x: nn.functional.pad(x, (0, 1)) if slack else x,
        project,
        lambda q, p, h: sphere.step_a(q, p, h, r)[0],
        muon.rows_turn(project, r, slack),
    )


def frames(rows: int, columns: int) -> Geometry:
    """The transcription is of tall matrices: a wide one is transposed."""
    wide = rows < columns

    def turned(x: Tensor) -> Tensor:
        return x.T.contiguous() if wide else x

    def direction(Q: Tensor, m: Tensor) -> Tensor:
        return muon.square_turns(Q, m) if rows == columns else turned(muon.msign(turned(m)))

    return Geometry(
        cl.Orthogonal(),
        nn.init.orthogonal_(torch.empty(rows, columns, dtype=torch.float64)),
        turned,
        turned,
        turned,
        lambda Q, P: orthogonal_underdamped.project(Q, P)[1],
        lambda Q, P, h: orthogonal_underdamped.step_a(Q, P, h, ITERATIONS)[0],
        direction,
    )


def implicit() -> Geometry:
    generator = torch.Generator().manual_seed(2)
    weight = normal(generator, 2, 3)
    weight = weight - weight.mean()
    return Geometry(
        cl.Implicit(sphere_and_plane),
        weight * (2**0.5 / weight.norm()),
        lambda w: w.reshape(-1),
        lambda q: q.reshape(2, 3),
        lambda x: x.reshape(-1),
        lambda q, p: general.project(sphere_and_plane, q, p)[1],
        lambda q, p, h: general.step_a(sphere_and_plane, q, p, h)[0],
        flat_matrix((2, 3)),
    )


GEOMETRIES: dict[str, Callable[[], Geometry]] = {
    "sphere": lambda: rows(slack=False),
    "sphere-slack": lambda: rows(slack=True),
    "orthogonal-tall": lambda: frames(6, 3),
    "orthogonal-wide": lambda: frames(3, 6),
    "orthogonal-square": lambda: frames(4, 4),
    "implicit": implicit,
}
each_geometry = pytest.mark.parametrize("name", GEOMETRIES)


def gradients(shape: torch.Size) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [normal(generator, *shape) for _ in range(STEPS)]


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE)


@each_geometry
def test_adam(name: str) -> None:
    case = GEOMETRIES[name]()
    weight = nn.Parameter(case.weight.clone())
    groups = [{"params": [weight], "constraint": case.constraint}]
    optimizer = cl.ConstrainedAdam(groups, LR, BETAS, EPS, DECAY)
    q = case.lift(case.weight)
    state = q, torch.zeros_like(q), torch.zeros_like(q)
    for t, grad in enumerate(gradients(weight.shape), 1):
        weight.grad = grad
        optimizer.step()
        decay = DECAY * case.covector(case.lower(state[0]))
        state = adam.step(case.project, case.drift, state, case.covector(grad), t, LR, BETAS, EPS, decay)
        close(weight.detach(), case.lower(state[0]))
    kept = optimizer.state[weight]
    close(case.lift(kept["momentum"]) if name == "orthogonal-wide" else kept["momentum"].view_as(q), state[1])
    close(
        case.lift(kept["second_moment"]) if name == "orthogonal-wide" else kept["second_moment"].view_as(q),
        state[2],
    )


@each_geometry
def test_muon(name: str) -> None:
    case = GEOMETRIES[name]()
    weight = nn.Parameter(case.weight.clone())
    groups = [{"params": [weight], "constraint": case.constraint}]
    optimizer = cl.ConstrainedMuon(groups, LR, MOMENTUM)
    q = case.lift(case.weight)
    state = q, torch.zeros_like(q)
    for grad in gradients(weight.shape):
        weight.grad = grad
        optimizer.step()
        state = muon.step(case.project, case.drift, case.direction, state, case.covector(grad), LR, MOMENTUM)
        close(weight.detach(), case.lower(state[0]))


def test_adam_on_circles() -> None:
    r, generator = 0.5, torch.Generator().manual_seed(3)
    start = r * torch.tanh(normal(generator, 3, 4))
    weight = nn.Parameter(start.clone())
    groups = [{"params": [weight], "constraint": cl.Circle(r)}]
    optimizer = cl.ConstrainedAdam(groups, LR, BETAS, EPS, DECAY)
    s = r * torch.asin(start / r)
    state = s, torch.zeros_like(s), torch.zeros_like(s)
    for t, grad in enumerate(gradients(weight.shape), 1):
        weight.grad = grad
        optimizer.step()
        state = adam.circle_step(state, grad, t, LR, BETAS, EPS, DECAY, r)
        close(weight.detach(), r * torch.sin(state[0] / r))
    close(r * optimizer.state[weight]["momentum"], state[1])  # stored in units of the angle
    close(optimizer.state[weight]["second_moment"], state[2])


def test_muon_on_circles() -> None:
    """msign acts on the arcs of all weights of a matrix; the rate is that of a free matrix."""
    r, generator = 0.5, torch.Generator().manual_seed(4)
    start = r * torch.tanh(normal(generator, 6, 3))
    weight = nn.Parameter(start.clone())
    optimizer = cl.ConstrainedMuon([{"params": [weight], "constraint": cl.Circle(r)}], LR, MOMENTUM)
    state = r * torch.asin(start / r), torch.zeros_like(start)
    for grad in gradients(weight.shape):
        weight.grad = grad
        optimizer.step()
        state = muon.step(
            lambda s, p: p,
            lambda s, p, h: s + h * p,
            lambda s, m: math.sqrt(6 / 3) * muon.msign(m),
            state,
            torch.cos(state[0] / r) * grad,
            LR,
            MOMENTUM,
        )
        close(weight.detach(), r * torch.sin(state[0] / r))


def test_the_matrix_sign_is_that_of_the_singular_vectors() -> None:
    """The transcription of the iteration against an SVD: singular values near 1, the same vectors."""
    M = normal(torch.Generator().manual_seed(5), 6, 4)
    U, _, Vt = torch.linalg.svd(M, full_matrices=False)
    within = U.T @ muon.msign(M) @ Vt.T
    sizes = within.diagonal()
    assert bool((sizes > 0.6).all())
    assert bool((sizes < 1.3).all())
    assert (within - sizes.diag()).abs().max() < 0.05
