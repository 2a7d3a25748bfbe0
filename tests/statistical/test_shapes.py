r"""Columns, whole weights, scaled matrices and blocks: the laws of test_sphere and test_orthogonal.

Step sizes, burn-in, biases and their origin are those of these files.
"""

import pytest
import torch
from torch import Tensor

import colangevin as cl
from tests.statistical import test_orthogonal, test_sphere
from tests.statistical.sampling import Run, chain_means
from tests.statistical.test_sphere import DIRECTION, KAPPA, RADIUS, TAU
from tests.statistics import assert_mean

SCALE = 0.6
SPHERES = {
    "overdamped": Run(h=0.02, burn=400, steps=1000, replicas=1024),
    "BAOAB": Run(h=0.2, burn=40, steps=300, replicas=1024),
}
# Of W = c Q, Q moves as at the temperature tau / c^2. With tau = c^2 the chains are those of test_orthogonal.
ROTATIONS = {scheme: test_orthogonal.FAST[scheme] for scheme in ("overdamped", "BAOAB")}
HAAR = {
    "overdamped": Run(h=0.05, burn=150, steps=100, replicas=400),
    "BAOAB": Run(h=0.2, burn=80, steps=100, replicas=400),
}


def tilted_sphere_means(scheme: str, over: str) -> Tensor:
    """Mean cosines between k and two columns of a 3 x 2 weight, or a 3 x 1 weight, under V = -k.x."""
    columns = 2 if over == "columns" else 1
    weight = torch.zeros(SPHERES[scheme].replicas, 3, columns, dtype=torch.float64)
    weight[:, 0] = -RADIUS
    k = (KAPPA * TAU / RADIUS * DIRECTION).unsqueeze(1)
    return chain_means(
        scheme,
        weight,
        cl.Sphere(RADIUS, slack=False, over=over),
        TAU,
        SPHERES[scheme],
        gradient=lambda x: -k.expand_as(x),
        observe=lambda x: DIRECTION @ x / RADIUS,
    )


def assert_tilted_sphere(scheme: str, over: str) -> None:
    """Standard error below 0.0045 from 1,024 chains; a false alarm in a million."""
    bias = test_sphere.budget(scheme, SPHERES[scheme].h)
    means = tilted_sphere_means(scheme, over)
    assert_mean(means, test_sphere.langevin_function(KAPPA), bias=bias, resolution=0.025)


@pytest.mark.parametrize("over", ["columns", "matrix"])
@pytest.mark.parametrize("scheme", SPHERES)
def test_tilted_columns_and_weights_are_von_mises_fisher(scheme: str, over: str) -> None:
    assert_tilted_sphere(scheme, over)


def rotation_means(scheme: str) -> Tensor:
    """Mean cosines of two scaled rotations in one 4 x 2 weight, whose log-density is 3 cos(angle)."""
    run = ROTATIONS[scheme]
    eye = torch.eye(2, dtype=torch.float64).repeat(2, 1)
    weight = SCALE * eye.repeat(run.replicas, 1, 1)
    tau = SCALE**2
    return chain_means(
        scheme,
        weight,
        cl.Orthogonal(SCALE, blocks=2),
        tau,
        run,
        gradient=lambda W: eye.expand_as(W) * (-0.5 * test_orthogonal.K * tau / SCALE),
        observe=lambda W: W.view(-1, 2, 2, 2).diagonal(dim1=2, dim2=3).mean(2) / SCALE,
    )


def assert_rotations(scheme: str) -> None:
    """Standard error below 0.0045 from 500 to 1,000 chains; a false alarm in a million."""
    bias = test_orthogonal.budget(scheme, ROTATIONS[scheme].h)
    exact = test_orthogonal.von_mises(test_orthogonal.K)
    assert_mean(rotation_means(scheme), exact, bias=bias, resolution=0.03)


@pytest.mark.parametrize("scheme", ROTATIONS)
def test_tilted_scaled_rotations_have_von_mises_angles(scheme: str) -> None:
    assert_rotations(scheme)


@pytest.mark.parametrize("scheme", HAAR)
def test_every_block_is_uniform(scheme: str) -> None:
    """E W_ij^2 = c^2 / r for two blocks of 5 x 3; no bias, a false alarm in a million."""
    run = HAAR[scheme]
    weight = SCALE * torch.eye(5, 3, dtype=torch.float64).repeat(run.replicas, 2, 1)
    means = chain_means(
        scheme,
        weight,
        cl.Orthogonal(SCALE, blocks=2),
        SCALE**2,
        run,
        gradient=torch.zeros_like,
        observe=lambda W: W.square().flatten(1),
    )
    assert_mean(means, SCALE**2 / 5, resolution=0.02 * SCALE**2)


@pytest.mark.usefixtures("noise_10_percent_too_large")
@pytest.mark.parametrize("over", ["columns", "matrix"])
def test_power_on_spheres_against_noise_10_percent_too_large(over: str) -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_tilted_sphere("BAOAB", over)


@pytest.mark.usefixtures("noise_10_percent_too_large")
def test_power_on_scaled_rotations_against_noise_10_percent_too_large() -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_rotations("BAOAB")


@pytest.mark.usefixtures("plainly")
def test_power_against_a_step_that_forgets_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Q then moves by the force and the noise of W: colder by the factor c."""
    from colangevin.constraints.blocks import Blocks

    def unscaled(self: Blocks, q: Tensor, grad: Tensor, h: float, sigma: float, noise: Tensor) -> Tensor:
        force = self._cut(grad)
        return self._of_copies(self.one.euler(q.flatten(0, 1), force, h, sigma, noise.flatten(0, 1)))

    monkeypatch.setattr(Blocks, "euler", unscaled)
    with pytest.raises(AssertionError, match="biased"):
        assert_rotations("overdamped")
