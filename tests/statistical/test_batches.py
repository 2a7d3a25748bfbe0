r"""Gradients of batches: von Mises-Fisher on S^2 as a posterior of data, to the heat that batches bring.

Data :math:`x_i` with density :math:`e^{\kappa_1 \mu \cdot x_i}` and an unknown direction :math:`\mu`: the
posterior of :math:`\mu` is von Mises-Fisher about the sum of the data. The loss is a mean over N data, so it
is sampled at ``posterior_temperature(N)``. The gradient of a batch has a covariance S that does not depend on
:math:`\mu`; it adds :math:`h^2 S` to the square of the momentum in every kick, so that momenta are at
:math:`\tau + h^2 \sigma^2/(1 - c^2)`, where :math:`\sigma^2` is the variance along the manifold in one
direction (overdamped: :math:`\tau + h\sigma^2/2`).
"""

import math

import pytest
import torch
from torch import Tensor

import colangevin as cl
from tests.statistical.sampling import SCHEMES, Run, some_slowly, tempering
from tests.statistics import assert_mean

N, BATCH = 64, 16
# Momenta forget at gamma = 1, positions at k^2/gamma, where k = |V'| / r = 0.09: time 75 and 150 are enough
# from the opposite pole (overdamped: rates kappa tau = 0.09, time 100).
RUNS = {
    "overdamped": Run(h=0.5, burn=200, steps=300, replicas=1, each=512),
    "OBA": Run(h=0.5, burn=150, steps=300, replicas=1, each=512, gamma=0.5),
    "BOA": Run(h=0.5, burn=150, steps=300, replicas=1, each=512, gamma=0.5),
    "BAOAB": Run(h=0.5, burn=150, steps=300, replicas=1, each=512, gamma=0.5),
}
# Little friction gives batches time to heat: by a fifth here.
HOT = Run(h=0.5, burn=150, steps=300, replicas=1, each=512, gamma=0.2)


def data() -> Tensor:
    """Points of the sphere about the first axis, but not many: their sum is short."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, 3, generator=generator, dtype=torch.float64)
    x[:, 0] += 0.1
    return 0.4 * x / x.norm(dim=1, keepdim=True)


X = data()
TAU = cl.posterior_temperature(N)
KAPPA = float(X.sum(0).norm())
POLE = X.sum(0) / KAPPA
# of the mean over a batch that is drawn without replacement, in one direction across the pole
SIGMA2 = float((X - X.mean(0)).square().sum()) / (N - 1) / 3 / BATCH * (1 - BATCH / N)


def langevin_function(kappa: float) -> float:
    return 1 / math.tanh(kappa) - 1 / kappa


def heat(scheme: str, run: Run) -> float:
    """The factor by which batches raise the temperature."""
    if scheme == "overdamped":
        return 1 + run.h * SIGMA2 / 2 / TAU
    c = math.exp(-run.gamma * run.h)
    return 1 + run.h**2 * SIGMA2 / (1 - c**2) / TAU


def chain_means(scheme: str, run: Run, batch: int) -> Tensor:
    """Chain means of the cosine to the pole, every chain with batches of its own."""
    weight = torch.zeros(run.each, 3, dtype=torch.float64)
    weight[:, 0] = -1.0
    weight.requires_grad_()
    groups = [{"params": [("mu", weight)], "constraint": cl.Sphere(1.0, slack=False)}]
    opt = (
        cl.CoLod(groups, run.h, temperature=TAU, seed=run.seed)
        if scheme == "overdamped"
        else cl.CoLud(groups, run.h, friction=run.gamma, temperature=TAU, splitting=scheme, seed=run.seed)
    )
    generator = torch.Generator().manual_seed(run.seed)
    total = torch.zeros(run.each, dtype=torch.float64)
    for step in range(run.burn + run.steps):
        opt.zero_grad()
        if batch < N:
            rows = torch.rand(run.each, N, generator=generator).argsort(1)[:, :batch]
            loss = -(X[rows] * weight.unsqueeze(1)).sum(2).mean(1)
        else:
            loss = -(weight @ X.T).mean(1)
        loss.sum().backward()
        opt.step()
        if step >= run.burn:
            total += weight.detach() @ POLE
    return total / run.steps


def budget(scheme: str, run: Run, batch: int) -> float:
    """What step size and batches do to the mean, a fifth more, and 0.02 h^2 for what is of second order."""
    temper = 1.0 if scheme == "overdamped" else tempering(scheme, run.h, run.gamma)
    warmer = heat(scheme, run) if batch < N else 1.0
    off = abs(langevin_function(KAPPA / temper / warmer) - langevin_function(KAPPA))
    return 1.2 * off + 0.02 * run.h**2


@pytest.mark.parametrize("batch", [N, BATCH])
@pytest.mark.parametrize("scheme", some_slowly(SCHEMES, ("OBA", "BOA")))
def test_the_posterior_is_von_mises_fisher(scheme: str, batch: int) -> None:
    run = RUNS[scheme]
    means = chain_means(scheme, run, batch)
    assert_mean(means, langevin_function(KAPPA), bias=budget(scheme, run, batch), resolution=0.08)


def assert_heated(warmer: float) -> None:
    means = chain_means("BAOAB", HOT, BATCH)
    assert_mean(means, langevin_function(KAPPA / warmer), bias=0.02 * HOT.h**2, resolution=0.02)


def test_batches_heat_as_much_as_their_covariance_says() -> None:
    assert_heated(heat("BAOAB", HOT))


def test_power_heat_that_is_not_counted_is_seen() -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_heated(1.0)
