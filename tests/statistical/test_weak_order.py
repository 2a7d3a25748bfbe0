r"""Weak order without random numbers: bias of position averages against step size, fitted on a ladder.

The oscillator's law comes from the matrix of the library's step by a Lyapunov equation, the laws on the
circle, the sphere and SO(2) from a Galerkin method (``quadrature.py``).
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.linalg import solve_discrete_lyapunov
from scipy.special import i0, i1

import colangevin as cl
from colangevin.dynamics.overdamped import Overdamped
from colangevin.dynamics.rates import langevin_rates
from colangevin.dynamics.splitting import parse
from colangevin.dynamics.underdamped import Underdamped
from tests.statistical import quadrature
from tests.statistical.sampling import SPLITTINGS, tempering

LADDER = (0.1, 0.05, 0.025, 0.0125)
FIRST, SECOND = (0.8, 1.2), (1.8, 2.2)
ORDER = {"OBA": FIRST, "BOA": FIRST, "BAOAB": SECOND}
GAMMA = 1.0
STIFFNESS, TAU = 2.0, 0.5

CIRCLE = quadrature.circle(r=0.7, a=2 * 0.3 / 0.7, tau=0.3)  # kappa = 2
ROTATIONS = quadrature.rotations(k=3.0, tau=0.3)


def bessel_ratio(kappa: float) -> float:
    return float(i1(kappa) / i0(kappa))


def order(bias: Callable[[float], float]) -> float:
    """The fitted slope of log |bias| against log h."""
    biases = [abs(bias(h)) for h in LADDER]
    return float(np.polyfit(np.log(LADDER), np.log(biases), 1)[0])


def assert_order(bias: Callable[[float], float], window: tuple[float, float]) -> None:
    slope = order(bias)
    assert window[0] <= slope <= window[1], f"slope {slope:.3f} outside {window}"


def oscillator_covariance(splitting: str, h: float) -> np.ndarray:
    """Stationary covariance of (q, p) for V = k q^2/2, from the matrix of the step.

    The step is linear in (q, p, R): the three basis vectors, fed as three copies, give its columns.
    """
    q, p, noise = torch.eye(3, dtype=torch.float64)
    dynamics = Underdamped(parse(splitting), langevin_rates(h, GAMMA, TAU))
    q, p = dynamics.step(cl.Free().on(()), q, p, STIFFNESS * q, [noise])
    columns = torch.stack((q, p)).numpy()
    step, force = columns[:, :2], columns[:, 2:]
    covariance: np.ndarray = solve_discrete_lyapunov(step, force @ force.T)
    return covariance


@pytest.mark.parametrize("h", [*LADDER, 0.5])
def test_oba_has_the_exact_discrete_law_of_the_oscillator(h: float) -> None:
    c = math.exp(-GAMMA * h)
    exact = TAU / STIFFNESS * (1 + c) / 2 / (1 - h**2 * STIFFNESS / (2 * (1 + c)))
    assert oscillator_covariance("OBA", h)[0, 0] == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("h", [*LADDER, 0.5])
def test_boa_has_the_positions_of_oba_under_a_scaled_potential(h: float) -> None:
    c = math.exp(-GAMMA * h)
    k = c * STIFFNESS
    exact = TAU / k * (1 + c) / 2 / (1 - h**2 * k / (2 * (1 + c)))
    assert oscillator_covariance("BOA", h)[0, 0] == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("h", [*LADDER, 0.5])
def test_baoab_has_exact_positions_of_the_oscillator(h: float) -> None:
    assert oscillator_covariance("BAOAB", h)[0, 0] == pytest.approx(TAU / STIFFNESS, rel=1e-12)


@pytest.mark.parametrize("h", [*LADDER, 0.5])
def test_euler_maruyama_has_the_exact_discrete_law_of_the_oscillator(h: float) -> None:
    q, noise = torch.eye(2, dtype=torch.float64)
    step, force = Overdamped(h, TAU).step(cl.Free().on(()), q, STIFFNESS * q, [noise]).tolist()
    exact = TAU / (STIFFNESS * (1 - h * STIFFNESS / 2))
    assert force**2 / (1 - step**2) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("splitting", ["OBA", "BOA"])
def test_oscillator_order_is_one(splitting: str) -> None:
    assert_order(lambda h: oscillator_covariance(splitting, h)[0, 0] - TAU / STIFFNESS, FIRST)


@pytest.mark.parametrize("splitting", ["OBA", "BOA"])
def test_oscillator_kinetic_temperature_is_of_order_two(splitting: str) -> None:
    assert_order(lambda h: oscillator_covariance(splitting, h)[1, 1] - TAU, SECOND)


@pytest.mark.parametrize("h", [*LADDER, 0.5])
def test_baoab_has_the_exact_kinetic_temperature_of_the_oscillator(h: float) -> None:
    assert oscillator_covariance("BAOAB", h)[1, 1] == pytest.approx(TAU, rel=1e-12)


@pytest.mark.parametrize("splitting", SPLITTINGS)
def test_order_on_the_circle(splitting: str) -> None:
    exact = -bessel_ratio(2)
    assert_order(lambda h: quadrature.underdamped_mean(CIRCLE, splitting, h, GAMMA) - exact, ORDER[splitting])


@pytest.mark.parametrize("splitting", SPLITTINGS)
def test_order_on_rotations(splitting: str) -> None:
    exact = bessel_ratio(3)
    assert_order(
        lambda h: quadrature.underdamped_mean(ROTATIONS, splitting, h, GAMMA) - exact, ORDER[splitting]
    )


@pytest.mark.parametrize("splitting", ["OBA", "BOA"])
def test_temperature_of_the_splitting_explains_its_bias_up_to_order_two(splitting: str) -> None:
    def remainder(h: float) -> float:
        tempered = -bessel_ratio(2 / tempering(splitting, h, GAMMA))
        return quadrature.underdamped_mean(CIRCLE, splitting, h, GAMMA) - tempered

    assert_order(remainder, SECOND)


def test_overdamped_order_is_one_on_the_circle() -> None:
    assert_order(lambda h: quadrature.overdamped_mean(CIRCLE, h / 4) + bessel_ratio(2), FIRST)


def test_overdamped_order_is_one_on_the_sphere() -> None:
    exact = 1 / math.tanh(2) - 1 / 2
    assert_order(lambda h: quadrature.sphere_overdamped_mean(0.7, 2 * 0.3 / 0.7, 0.3, h / 4) - exact, FIRST)


def test_overdamped_order_is_one_on_rotations() -> None:
    assert_order(lambda h: quadrature.overdamped_mean(ROTATIONS, h / 4) - bessel_ratio(3), FIRST)


def test_power_a_first_order_splitting_is_not_of_second_order() -> None:
    exact = -bessel_ratio(2)
    with pytest.raises(AssertionError, match="slope"):
        assert_order(lambda h: quadrature.underdamped_mean(CIRCLE, "OBA", h, GAMMA) - exact, SECOND)
