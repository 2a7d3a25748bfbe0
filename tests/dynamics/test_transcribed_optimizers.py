"""The optimizers beside the line-by-line transcriptions of the paper, with given noise for drawn noise."""

import math

import pytest
import torch
from torch import Tensor

import colangevin as cl
from colangevin.step import plan
from colangevin.step.native.eligible import native
from tests.dynamics.transcribed_cases import CASES, CLOSED_FORMS, Case, Variables, normal, orthogonal_case
from tests.dynamics.transcribed_steps import (
    GAMMA,
    ORDERS,
    TAU,
    H,
    assert_same,
    assert_same_point,
    forces,
    reference_step,
)


@pytest.fixture
def given_noise(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """A queue of the noise that the optimizers draw next, one tensor for each key."""
    queue: list[Tensor] = []

    def take(
        keys: list[int], shape: tuple[int, ...], *, dtype: torch.dtype, device: torch.device, window: None
    ) -> Tensor:
        drawn = torch.stack([queue.pop(0) for _ in keys])
        assert drawn.shape == (len(keys), *shape)
        assert (drawn.dtype, drawn.device) == (dtype, device)
        return drawn

    monkeypatch.setattr("colangevin.step.plain.normal", take)
    # the native library draws its own, so it is here only where there is none
    monkeypatch.setattr(
        plan, "native", lambda entry, dynamics: not dynamics.noisy and native(entry, dynamics)
    )
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
        # the gradient depends on the position, so a gradient from before the drift would fail the comparison
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
