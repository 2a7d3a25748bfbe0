r"""A posterior on row simplices agrees with mici, which samples it in coordinates of its own.

Two rows of three probabilities have a Dirichlet(1/2) prior, the law of ``Simplex`` at L = 0. Classes drawn
from the first row, from the second and from a mixture of both are seen through a device that confuses them.
So the posterior has no closed form, and the rows depend on each other. mici takes the free logarithms
:math:`\theta = \mathrm{softmax}(z, 0)` of each row. With the Jacobian :math:`\prod_i \theta_i` they have the
density :math:`e^{-L} \prod_i \theta_i^{-1/2} \prod_i \theta_i`: neither roots nor a sphere are in it.
"""

from functools import cache

import mici
import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import colangevin as cl
from tests.statistics import RATE

CONFUSION = torch.tensor([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.05, 0.25, 0.7]], dtype=torch.float64)
# which rows, in which shares, the three samples come from, and how often each class was seen in them
SHARES = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.4, 0.6]], dtype=torch.float64)
COUNTS = torch.tensor([[9.0, 2.0, 1.0], [1.0, 3.0, 7.0], [4.0, 2.0, 8.0]], dtype=torch.float64)
CHAINS, BURN, STEPS, H = 256, 150, 500, 0.1
# of a mean at h = 0.1: twice what 2,048 chains show between h = 0.1 and 0.05, where it is a quarter
BIAS = 0.002


def loss(rows: Tensor) -> Tensor:
    """Negative log-likelihood of weights (..., 2, 3), for each."""
    return -(COUNTS * (SHARES @ rows @ CONFUSION).log()).sum((-2, -1))


def ours(tau: float = 1.0, h: float = H, chains: int = CHAINS) -> Tensor:
    """Time averages of the six probabilities in every chain, shape (chains, 6)."""
    weight = nn.Parameter(torch.full((chains, 2, 3), 1 / 3, dtype=torch.float64))
    group = {"params": [weight], "constraint": cl.Simplex(), "replicas": chains}
    optimizer = cl.CoLud([group], h, friction=1.0, temperature=tau, splitting="BAOAB", seed=3)
    total = torch.zeros(chains, 6, dtype=torch.float64)
    for step in range(BURN + STEPS):
        optimizer.zero_grad()
        loss(weight).sum().backward()
        optimizer.step()
        if step >= BURN:
            total += weight.detach().flatten(1)
    return total / STEPS


@cache
def theirs(iterations: int, *, alpha: float = 0.5) -> Tensor:
    """The probabilities in all iterations of four chains, shape (4, iterations, 6), for a Dirichlet prior."""
    counts, shares, confusion = COUNTS.numpy(), SHARES.numpy(), CONFUSION.numpy()

    def rows_at(q: np.ndarray) -> np.ndarray:
        z = np.pad(q.reshape(2, 2), ((0, 0), (0, 1)))
        powers = np.exp(z - z.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    def energy(q: np.ndarray) -> float:
        rows = rows_at(q)
        return -float((counts * np.log(shares @ rows @ confusion)).sum() + alpha * np.log(rows).sum())

    def gradient(q: np.ndarray) -> np.ndarray:
        rows = rows_at(q)
        slope = -shares.T @ (counts / (shares @ rows @ confusion)) @ confusion.T - alpha / rows
        return (rows * (slope - (rows * slope).sum(1, keepdims=True)))[:, :2].ravel()

    system = mici.systems.EuclideanMetricSystem(energy, grad_neg_log_dens=gradient)
    generator = np.random.default_rng(1)
    sampler = mici.samplers.DynamicMultinomialHMC(
        system, mici.integrators.LeapfrogIntegrator(system), generator
    )
    _, traces, _ = sampler.sample_chains(
        n_warm_up_iter=100,
        n_main_iter=iterations,
        init_states=list(generator.normal(size=(4, 4))),
        adapters=[mici.adapters.DualAveragingStepSizeAdapter(0.8)],
        trace_funcs=[lambda state: {"rows": rows_at(state.pos).ravel()}],
        display_progress=False,
    )
    return torch.from_numpy(np.stack(traces["rows"]))


def assert_agreement(mine: Tensor, other: Tensor, *, resolution: float) -> None:
    """Each of six means within its share of a false-alarm rate of 1e-6, by the normal law."""
    errors = torch.tensor([cl.diagnostics.standard_error(each) for each in other.unbind(2)])
    error = torch.hypot(mine.std(0) / len(mine) ** 0.5, errors)
    tolerance = float(stats.norm.isf(RATE / 6 / 2)) * error + BIAS
    off = (mine.mean(0) - other.mean((0, 1))).abs()
    assert bool((off <= tolerance).all()), f"biased: means {off.tolist()} apart, > {tolerance.tolist()}"
    assert float(tolerance.max()) <= resolution, f"blind: the tolerance is {float(tolerance.max()):.3g}"


def test_means_agree_with_mici() -> None:
    assert_agreement(ours(), theirs(200), resolution=0.06)


@pytest.mark.slow
def test_means_agree_with_mici_closely() -> None:
    assert_agreement(ours(chains=2048), theirs(2000), resolution=0.025)


def test_power_against_another_temperature() -> None:
    with pytest.raises(AssertionError, match="biased"):
        assert_agreement(ours(tau=3.0), theirs(200), resolution=0.06)


def test_power_against_another_prior() -> None:
    """Dirichlet(2): what would be sampled if the law of the simplex were not the one that is said."""
    with pytest.raises(AssertionError, match="biased"):
        assert_agreement(ours(), theirs(200, alpha=2.0), resolution=0.06)
