r"""Several manifolds in one model under one optimizer: every law is its own, and they are independent."""

import math

import pytest
import torch
from scipy.special import i0, i1
from torch import Tensor, nn

import colangevin as cl
from tests.statistical.matrix_fisher import stiefel_moments
from tests.statistical.sampling import SCHEMES, Run, some_slowly, tempering
from tests.statistics import RATE, assert_mean

TAU = 0.5
KAPPA = 2.0
F = (3.0, 1.5)
DIRECTION = torch.tensor([1.0, -2.0, 2.0], dtype=torch.float64) / 3

# As in the files of the single laws: time 8 of burn-in at rates near 1.
RUNS = {
    "overdamped": Run(h=0.02, burn=400, steps=400, replicas=300),
    "OBA": Run(h=0.05, burn=160, steps=400, replicas=300),
    "BOA": Run(h=0.05, burn=160, steps=400, replicas=300),
    "BAOAB": Run(h=0.2, burn=40, steps=150, replicas=500),
}


class Product(nn.Module):
    """A circle, a sphere, a sphere with slack, an orthonormal frame and a free number."""

    def __init__(self) -> None:
        super().__init__()
        for name, start in (
            ("circle", [0.3]),
            ("sphere", [[0.0, 0.0, 1.0]]),
            ("ball", [[0.5, 0.0, 0.0]]),
            ("frame", [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
            ("free", [0.0]),
        ):
            self.register_parameter(name, nn.Parameter(torch.tensor(start, dtype=torch.float64)))

    def forward(self, x: Tensor) -> Tensor:
        """V, a sum of one term for each but the ball; x is 1."""
        frame = F[0] * self.frame[0, 0] + F[1] * self.frame[1, 1]
        tilts = KAPPA * self.circle[0] - KAPPA * (self.sphere @ DIRECTION).sum() - frame
        return x * TAU * tilts + self.free.square().sum() / 2 + 0 * self.ball.sum()


RULES = {
    "circle": cl.Circle(1.0),
    "sphere": cl.Sphere(1.0, slack=False),
    "ball": cl.Sphere(1.0),
    "frame": cl.Orthogonal(),
}


def observe(replicas: cl.Replicas) -> Tensor:
    """Seven numbers a chain: first moments, the second ones of the ball and the free number, a product."""
    w = dict(replicas.named_parameters())
    with torch.no_grad():
        circle, sphere = w["circle"][:, 0], w["sphere"][:, 0] @ DIRECTION
        diagonal = w["frame"].diagonal(dim1=1, dim2=2)
        ball, free = w["ball"].square().mean((1, 2)), w["free"][:, 0].square()
        return torch.stack((circle, sphere, *diagonal.unbind(1), ball, free, circle * sphere), dim=1)


def expected(temper: float = 1.0) -> list[float]:
    """The exact averages at a temperature that is ``temper`` times TAU."""
    kappa = KAPPA / temper
    circle, sphere = -float(i1(kappa) / i0(kappa)), 1 / math.tanh(kappa) - 1 / kappa
    frame = stiefel_moments((F[0] / temper, F[1] / temper))
    return [circle, sphere, *frame, 1 / 4, TAU * temper, circle * sphere]


def budgets(scheme: str, h: float) -> list[float]:
    """The largest of the single laws' budgets (overdamped, BAOAB); by the splitting's temperature."""
    if scheme == "overdamped":
        return [0.06 * h, 0.1 * h, 0.5 * h, 0.5 * h, 0.0, 0.3 * h, 0.1 * h]
    if scheme == "BAOAB":
        return [0.01 * h**2, 0.01 * h**2, 0.1 * h**2, 0.1 * h**2, 0.0, 0.0, 0.01 * h**2]
    tempered = expected(tempering(scheme, h, gamma=1.0))
    return [1.2 * abs(one - other) + 0.1 * h**2 for one, other in zip(tempered, expected(), strict=True)]


def chain_averages(scheme: str, run: Run) -> Tensor:
    replicas = cl.Replicas(Product, run.replicas, seed=0)
    groups = replicas.constrain(RULES)
    opt = (
        cl.CoLod(groups, run.h, temperature=TAU, seed=run.seed)
        if scheme == "overdamped"
        else cl.CoLud(groups, run.h, friction=1.0, temperature=TAU, splitting=scheme, seed=run.seed)
    )
    total = torch.zeros_like(observe(replicas))
    for step in range(run.burn + run.steps):
        opt.zero_grad()
        replicas(torch.ones((), dtype=torch.float64)).sum().backward()
        opt.step()
        if step >= run.burn:
            total += observe(replicas)
    return total / run.steps


def assert_product(scheme: str) -> None:
    run = RUNS[scheme]
    means = chain_averages(scheme, run)
    rate = RATE / means.shape[1]
    columns = zip(means.unbind(1), expected(), budgets(scheme, run.h), strict=True)
    for column, exact, bias in columns:
        assert_mean(column, exact, bias=bias, resolution=0.12, rate=rate)


@pytest.mark.parametrize("scheme", some_slowly(SCHEMES, ("overdamped", "OBA", "BOA")))
def test_every_manifold_has_its_law(scheme: str) -> None:
    assert_product(scheme)


@pytest.mark.usefixtures("noise_10_percent_too_large")
def test_power_against_noise_10_percent_too_large() -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_product("BAOAB")
