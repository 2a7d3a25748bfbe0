r"""Assertions about averages and laws that say how often they cry wolf.

Design. A sampler is run as many *independent chains* (elements of a circle, rows of a sphere, replicas). Each
gives one number, its average over time, and these numbers are independent and identically distributed
whatever the autocorrelation inside a chain. So the standard error is their sample standard deviation over the
square root of their number: no effective sample size has to be estimated. What is allowed has two parts:

    |mean over chains - exact|  <=  z * (standard error)  +  bias

- ``z`` is the two-sided quantile of the false-alarm rate, from Student's law with chains - 1 degrees of
  freedom (chains are averages over time, hence near normal). At ``RATE`` = 1e-6 and many chains z = 4.9: a
  correct sampler with a fresh seed fails one assertion in a million. Seeds are fixed, so a test that passes
  once passes for ever on the same machine; the rate is what a change of seed, noise or rounding risks.
- ``bias`` is the budget for the finite step size. It is 0 where the discrete law is exact, and otherwise a
  number whose origin the test states (a closed form, or the quadrature of ``statistical/quadrature.py``).

A wide tolerance passes anything, so every assertion also states its ``resolution``: the largest tolerance it
may have. A test with too few chains fails instead of passing blindly. Each file of ``statistical`` ends with
deliberately broken steps that must fail these same assertions.

Several averages (a matrix of them for each chain) are one assertion: each column gets its share of the rate.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import stats
from torch import Tensor

__all__ = ["RATE", "assert_law", "assert_mean", "quantile"]

RATE = 1e-6  # false alarms per assertion


def quantile(chains: int, rate: float = RATE) -> float:
    """Two-sided quantile of Student's law with chains - 1 degrees of freedom: 4.9 for many chains at 1e-6."""
    return float(stats.t.isf(rate / 2, chains - 1))


def assert_mean(
    chain_means: Tensor, exact: float, *, resolution: float, bias: float = 0.0, rate: float = RATE
) -> None:
    """Assert that independent chains average to the exact value; see the module for the design.

    Args:
        chain_means: one time average a chain, shape (chains,), or several, shape (chains, columns), all of
            which have the same exact value.
        exact: the expectation under the law that should be sampled.
        resolution: the largest tolerance that still makes this a test.
        bias: the budget for the finite step size.
        rate: the false-alarm rate of the whole assertion.
    """
    values = chain_means.detach().double().reshape(len(chain_means), -1)
    chains, columns = values.shape
    error = values.std(0) / math.sqrt(chains)
    tolerance = quantile(chains, rate / columns) * error + bias
    off = (values.mean(0) - exact).abs()
    worst = int((off - tolerance).argmax())
    widest = float(tolerance.max())
    assert bool((off <= tolerance).all()), (
        f"biased: mean {float(values.mean(0)[worst]):.6g} over {chains} chains, exact {exact:.6g}, off by "
        f"{float(off[worst]):.3g} > {float(tolerance[worst]):.3g} = {quantile(chains, rate / columns):.1f} x "
        f"{float(error[worst]):.3g} + {bias:.3g}"
    )
    assert widest <= resolution, (
        f"blind: the tolerance is {widest:.3g}, the test promises {resolution:.3g}; run more chains or steps"
    )


def assert_law(
    samples: Tensor,
    cdf: Callable[[np.ndarray], np.ndarray],
    *,
    resolution: float,
    bias: float = 0.0,
    rate: float = RATE,
) -> None:
    """Assert that independent samples have a law, by the test of Kolmogorov and Smirnov.

    Args:
        samples: one a chain (its end point), so that they are independent.
        cdf: the exact cumulative distribution function.
        resolution: the largest distance of distribution functions that may pass.
        bias: the budget for the finite step size, as a distance of distribution functions.
        rate: the false-alarm rate, the p-value below which the assertion fails when the budget is 0.
    """
    values = samples.detach().double().flatten().numpy()
    tolerance = float(stats.kstwo.isf(rate, values.size)) + bias
    distance = float(stats.ks_1samp(values, cdf).statistic)
    assert distance <= tolerance, (
        f"wrong law: distribution functions {distance:.3g} apart > {tolerance:.3g} for {values.size} samples"
    )
    assert tolerance <= resolution, (
        f"blind: the tolerance is {tolerance:.3g}, the test promises {resolution:.3g}; run more chains"
    )
