"""What every transcribed letter must satisfy, closed form and general: g(q) = 0, J(q) p = 0, symmetries."""

import math

import pytest
import torch

from .cases import ALL, GAMMA, TAU, TOL, H, assert_on_cotangent_bundle, assert_same


@pytest.mark.parametrize("name", ALL)
def test_every_letter_keeps_the_constraint_and_the_cotangency(name: str) -> None:
    """A run of letters stays on the cotangent bundle after each of them (TOL)."""
    case = ALL[name]
    q, p = case.q, case.p
    assert_on_cotangent_bundle(case, q, p)
    for _ in range(3):
        q, p = case.step_o(q, p, H, GAMMA, TAU, case.noise)
        assert_on_cotangent_bundle(case, q, p)
        q, p = case.step_b(q, p, case.grad, H)
        assert_on_cotangent_bundle(case, q, p)
        q, p = case.step_a(q, p, H)
        assert_on_cotangent_bundle(case, q, p)


@pytest.mark.parametrize("name", ALL)
def test_projection_is_idempotent_and_orthogonal(name: str) -> None:
    """Pi Pi x = Pi x, and what Pi removes is orthogonal to what it keeps (TOL)."""
    case = ALL[name]
    _, once = case.project(case.q, case.noise)
    _, twice = case.project(case.q, once)
    assert_on_cotangent_bundle(case, case.q, once)
    assert_same(twice, once)
    assert abs(torch.dot(case.noise - once, once)) <= TOL
    assert torch.dot(case.noise - once, case.noise) > 0.1


@pytest.mark.parametrize("name", ALL)
def test_o_without_temperature_is_pure_decay(name: str) -> None:
    """At tau = 0 the O step multiplies all of p, slack momentum included, by exp(-gamma h)."""
    case = ALL[name]
    q, p = case.step_o(case.q, case.p, H, GAMMA, 0.0, case.noise)
    assert_same(q, case.q)
    assert_same(p, math.exp(-GAMMA * H) * case.p)


@pytest.mark.parametrize("name", ALL)
def test_a_is_reversible(name: str) -> None:
    """A, p -> -p, A, p -> -p is the identity (TOL)."""
    case = ALL[name]
    q, p = case.step_a(case.q, case.p, H)
    assert (q - case.q).abs().max() > 0.01
    q, p = case.step_a(q, -p, H)
    assert_same(q, case.q)
    assert_same(-p, case.p)
