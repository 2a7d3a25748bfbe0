r"""Affine: V = k |q - t|^2 / 2 on A q = b is a Gaussian about the projection of t with covariance tau P/k."""

import pytest
import torch
from torch import Tensor

import colangevin as cl
from tests.statistical.sampling import SCHEMES, Run, chain_means
from tests.statistical.test_free import FAST, STIFFNESS, TAU, variance
from tests.statistics import assert_mean

A = torch.tensor([[1.0, 1.0, 2.0, 0.0], [0.0, 1.0, -1.0, 3.0]], dtype=torch.float64)
B = torch.tensor([1.0, -0.5], dtype=torch.float64)
ONES = torch.ones(1, 4, dtype=torch.float64)
TARGET = torch.tensor([0.5, -1.0, 0.3, 2.0], dtype=torch.float64)
#: the constraint, and its equations
SETS = {
    "equations": (cl.Affine(A, B), A, B),
    "sum": (cl.Affine.sum(1.0), ONES, torch.ones(1, dtype=torch.float64)),
}


def means(name: str, scheme: str, run: Run) -> tuple[Tensor, Tensor]:
    """Chain means of q - E q, and of its squares in units of the variance that each entry should have.

    In the plane the steps are those of a free oscillator of the same stiffness, whose discrete variance is
    known at any step size.
    """
    constraint, A, b = SETS[name]
    inverse = torch.linalg.inv(A @ A.T)
    center = TARGET - (A @ TARGET - b) @ inverse @ A
    P = torch.eye(4, dtype=torch.float64) - A.T @ inverse @ A
    weight = center.expand(run.replicas, run.each, 4).clone()
    found = chain_means(
        scheme,
        weight,
        constraint,
        TAU,
        run,
        gradient=lambda q: STIFFNESS * (q - TARGET),
        observe=lambda q: torch.stack(
            (q - center, (q - center).square() / (P.diag() * variance(scheme, run)))
        ),
    )
    return found[0].flatten(0, 1), found[1].flatten(0, 1)


def assert_gaussian(name: str, scheme: str) -> None:
    """To 0.02 of the mean and 3 % of every variance, from 8,192 chains; the discrete law has no bias."""
    away, squares = means(name, scheme, FAST[scheme])
    assert_mean(away, 0.0, resolution=0.02)
    assert_mean(squares, 1.0, resolution=0.03)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", SETS)
def test_a_quadratic_loss_has_its_discrete_gaussian_law(name: str, scheme: str) -> None:
    assert_gaussian(name, scheme)


@pytest.mark.usefixtures("noise_10_percent_too_large")
@pytest.mark.parametrize("scheme", ["overdamped", "BAOAB"])
@pytest.mark.parametrize("name", SETS)
def test_power_against_noise_10_percent_too_large(name: str, scheme: str) -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_gaussian(name, scheme)
