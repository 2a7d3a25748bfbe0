"""The library's pure steps beside the line-by-line transcriptions of the paper.

Both get the same q, p, gradients and noise, in float64. They agree to 1e-12 after every step of a run of 100:
rounding is 1e-16 a step, and the given gradients do not depend on q, so they do not amplify it.
"""

import math

import pytest
import torch

from colangevin.dynamics.letters import drift, kick, ornstein_uhlenbeck
from colangevin.dynamics.overdamped import Overdamped
from colangevin.dynamics.rates import langevin_rates, sgd_rates
from colangevin.dynamics.splitting import parse
from colangevin.dynamics.underdamped import Underdamped
from tests.dynamics.transcribed_cases import CASES, CLOSED_FORMS
from tests.dynamics.transcribed_steps import (
    GAMMA,
    ORDERS,
    TAU,
    H,
    assert_same_point,
    forces,
    moving_start,
    reference_step,
)


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
