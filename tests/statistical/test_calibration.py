r"""Simulation-based calibration on every manifold (Talts et al. 2018), with a skewed posterior.

If w is drawn from the prior and y given w, then w is one more draw of the posterior given y: its rank among
draws of the sampler is uniform. One rank is that of -log p(y | w) (Modrák et al. 2023), which sees a wrong
temperature; the other, of a weighted sum of squares, sees a wrong measure. BAOAB, 16 ranks, draws a time 7
apart; the false-alarm rate of each test is 1e-6.
"""

import pytest

from tests.statistical.calibration import assert_uniform_ranks, ranks
from tests.statistical.priors import CASES
from tests.statistical.sampling import Run
from tests.statistics import RATE

DRAWS = 15
#: chains of every case: as many as see noise that is 10 % too large
CHAINS = {
    "circle": 20_000,
    "sphere": 20_000,
    "ball": 20_000,
    "frames": 12_000,
    "blocks": 6_000,
    "implicit": 6_000,
}
RUNS = {name: Run(h=0.14, burn=100, steps=50, replicas=CHAINS.get(name, 8_000), gamma=1.5) for name in CASES}


def assert_calibrated(name: str, **options: object) -> None:
    run = RUNS[name]
    for found in ranks(CASES[name], "BAOAB", run, DRAWS, **options).values():
        assert_uniform_ranks(found, DRAWS, rate=RATE / 2, least=run.replicas)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_ranks_are_uniform(name: str) -> None:
    assert_calibrated(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("noise_10_percent_too_large")
def test_power_against_noise(name: str) -> None:
    with pytest.raises(AssertionError, match="not uniform"):
        assert_calibrated(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_power_against_another_measure(name: str) -> None:
    """The truth comes from a law that is uniform in other coordinates."""
    with pytest.raises(AssertionError, match="not uniform"):
        assert_calibrated(name, draw=CASES[name].wrong)
