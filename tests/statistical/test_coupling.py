r"""Coupled chains find the bias of a step size where it is known: a harmonic oscillator, and a tilted circle.

The difference between the chains is compared with the exact one, the bias at 2h minus that at h. With 2,048
chains a correct pair fails one assertion in a million. Every assertion states its resolution, which untied
chains of the same length do not reach.
"""

import pytest
import torch
from scipy import special

import colangevin as cl
from colangevin.step.plan import Plan
from tests.statistical.quadrature import circle, overdamped_mean, underdamped_mean
from tests.statistics import quantile

CHAINS, TAU, STIFFNESS, RADIUS, TILT = 2048, 0.4, 1.5, 0.7, 0.6
GAMMA = 1.0


def pair(kind, lr, constraint, start, gradient, observe, steps):
    def build(lr):
        weight = torch.nn.Parameter(torch.full((CHAINS, 1), start, dtype=torch.float64))
        group = {"params": [weight], "constraint": constraint, "replicas": CHAINS}
        if kind == "overdamped":
            optimizer = cl.CoLod([group], lr, temperature=TAU, seed=5)
        else:
            optimizer = cl.CoLud([group], lr, friction=GAMMA, temperature=TAU, splitting=kind, seed=5)

        def closure():
            weight.grad = gradient(weight.detach())

        return optimizer, closure, lambda: observe(weight.detach()).squeeze(1)

    return cl.diagnostics.coupled(build, lr, steps=steps, burn_in=round(8 / (2 * lr)))


def oscillator(h=0.1):
    """E q^2 of the overdamped step is tau / (k (1 - h k / 2)), exactly."""
    found = pair("overdamped", h, cl.Free(), 0.0, lambda w: STIFFNESS * w, torch.square, steps=200)
    variances = [TAU / (STIFFNESS * (1 - step * STIFFNESS / 2)) for step in (h, 2 * h)]
    return found, variances[1] - variances[0], abs(variances[0] - TAU / STIFFNESS)


def on_a_circle(kind, h):
    """E theta / r under V = a theta, by quadrature of the library's own step."""
    chart = circle(RADIUS, TILT, TAU)
    mean = (lambda h: overdamped_mean(chart, h)) if kind == "overdamped" else (
        lambda h: underdamped_mean(chart, kind, h, GAMMA)
    )  # fmt: skip
    found = pair(
        kind,
        h,
        cl.Circle(RADIUS),
        0.3,
        lambda w: torch.full_like(w, TILT),
        lambda w: w / RADIUS,
        steps=round(30 / h),
    )
    kappa = TILT * RADIUS / TAU
    return found, mean(2 * h) - mean(h), abs(mean(h) + special.i1(kappa) / special.i0(kappa))


CASES = {
    "oscillator": (oscillator, 0.002),
    "circle, overdamped": (lambda: on_a_circle("overdamped", 0.02), 0.008),
    "circle, OBA": (lambda: on_a_circle("OBA", 0.05), 0.006),
    "circle, BAOAB": (lambda: on_a_circle("BAOAB", 0.1), 0.006),
}


def assert_difference(name):
    case, resolution = CASES[name]
    found, exact, bias = case()
    tolerance = quantile(CHAINS) * found.error
    assert abs(found.difference - exact) <= tolerance, f"off: {found.difference:.4g}, exact {exact:.4g}"
    assert tolerance <= resolution, f"blind: {tolerance:.3g} > {resolution}"
    assert bias <= found.bound


@pytest.mark.parametrize("name", CASES)
def test_the_difference_is_that_of_the_biases(name):
    assert_difference(name)


@pytest.mark.parametrize("name", CASES)
def test_power_against_the_same_seed_step_against_step(name, monkeypatch):
    """The noise of the coarse chain is then that of other steps of the fine one."""
    monkeypatch.setattr("colangevin.diagnostics.coupling.TiedPlan", Plan)
    with pytest.raises(AssertionError, match="blind"):
        assert_difference(name)
