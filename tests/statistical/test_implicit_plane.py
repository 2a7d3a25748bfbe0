r"""Rows that sum to 1 under a quadratic loss, as a general constraint: a Gaussian on a plane.

With :math:`V = \frac12 \sum_i k_i (w_i - a_i)^2` on :math:`\sum_i w_i = 1` the law is the normal one with
covariance :math:`\tau (\Pi K \Pi)^+`, where :math:`\Pi` projects onto the plane, and with the minimum of V
there as its mean. Geodesics are straight lines, so a splitting has the law of a harmonic oscillator in every
eigendirection of :math:`\Pi K \Pi`. For BAOAB it is exact at every step size; for the overdamped step the
variance is divided by :math:`1 - h k / 2`.
"""

import pytest
import torch
from torch import Tensor

import colangevin as cl
from tests.statistical.sampling import Run, chain_means
from tests.statistics import RATE, assert_mean

STIFFNESS = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
CENTRE = torch.tensor([0.5, 0.0, -0.3], dtype=torch.float64)
TAU = 0.5
RUNS = {
    "overdamped": Run(h=0.25, burn=60, steps=200, replicas=8, each=512),
    "BAOAB": Run(h=0.5, burn=60, steps=150, replicas=8, each=512),
}
# of a variance; a law with a wrong covariance misses by far more
RESOLUTION = 0.05


def sums_to_one(row: Tensor) -> Tensor:
    return row.sum() - 1


def law(scheme: str, h: float) -> tuple[Tensor, Tensor]:
    """Mean and covariance of a row in the discrete law."""
    ones = torch.ones(3, dtype=torch.float64)
    projection = torch.eye(3, dtype=torch.float64) - 1 / 3
    values, vectors = torch.linalg.eigh(projection @ torch.diag(STIFFNESS) @ projection)
    k, vectors = values[1:], vectors[:, 1:]  # the first is the normal of the plane
    variance = TAU / k if scheme == "BAOAB" else TAU / (k * (1 - h * k / 2))
    # the minimum of V on the plane, by its Lagrange multiplier
    mean = CENTRE + (1 - CENTRE.sum()) / (1 / STIFFNESS).sum() * (ones / STIFFNESS)
    return mean, vectors @ torch.diag(variance) @ vectors.T


def moments(scheme: str, constraint: cl.Constraint) -> Tensor:
    """Time averages in every chain of (w - mean)(w - mean)^T and of w - mean, shape (chains, 12)."""
    run = RUNS[scheme]
    mean, _ = law(scheme, run.h)
    start = torch.full((run.replicas, run.each, 3), 1 / 3, dtype=torch.float64)

    def observe(w: Tensor) -> Tensor:
        away = w - mean
        return torch.cat(((away.unsqueeze(-1) * away.unsqueeze(-2)).flatten(-2), away), -1)

    means = chain_means(
        scheme, start, constraint, TAU, run, gradient=lambda w: STIFFNESS * (w - CENTRE), observe=observe
    )
    return means.flatten(0, 1)


def assert_affine_gaussian(scheme: str, constraint: cl.Constraint) -> None:
    """Each of 12 moments with its share of the false-alarm rate of the whole, 1e-6."""
    found = moments(scheme, constraint)
    _, covariance = law(scheme, RUNS[scheme].h)
    exact = torch.cat((covariance.flatten(), torch.zeros(3, dtype=torch.float64)))
    scale = float(covariance.diagonal().mean())
    for column, value in zip(found.T, exact.tolist(), strict=True):
        assert_mean(column, value, resolution=RESOLUTION * scale, rate=RATE / len(exact))


@pytest.mark.parametrize("scheme", RUNS)
def test_rows_that_sum_to_one_have_their_gaussian_law(scheme: str) -> None:
    assert_affine_gaussian(scheme, cl.Implicit(sums_to_one, over="rows"))


class Oblique(cl.Implicit):
    """Broken: a step returns to the plane along the first entry, not along the normal."""

    def on(self, shape):
        manifold = super().on(shape)

        def project(q: Tensor, q_bar: Tensor) -> Tensor:
            rows = q_bar.reshape(*q.shape[:1], *shape).clone()
            rows[..., 0] += 1 - rows.sum(-1)
            return rows.reshape(q.shape)

        manifold.project = project
        return manifold


def test_a_step_that_returns_along_another_direction_has_another_law() -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_affine_gaussian("overdamped", Oblique(sums_to_one, over="rows"))
