"""Autocorrelation and standard errors against chains whose own are known; ArviZ's figures."""

import math
import sys

import pytest
import torch
from torch import Tensor

from colangevin.diagnostics import autocorrelation_time, convergence, standard_error, to_arviz


def autoregressive(rho: float, chains: int, draws: int, seed: int = 0) -> Tensor:
    """x' = rho x + sqrt(1 - rho^2) R from equilibrium: variance 1, time (1 + rho)/(1 - rho)."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(draws, chains, generator=generator, dtype=torch.float64)
    x = noise[0]
    out = [x]
    for each in noise[1:]:
        x = rho * x + math.sqrt(1 - rho**2) * each
        out.append(x)
    return torch.stack(out, dim=1)


# The relative standard deviation of the estimate is about sqrt(2 (2 W + 1) / n) with a window W of a few
# autocorrelation times: 5 % here, so that 25 % is five of them.
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_autocorrelation_time_of_an_autoregression(rho):
    exact = (1 + rho) / (1 - rho)
    assert autocorrelation_time(autoregressive(rho, 4, 20_000)) == pytest.approx(exact, rel=0.25)


def test_an_alternating_chain_has_a_time_below_1():
    assert autocorrelation_time(autoregressive(-0.5, 4, 20_000)) == pytest.approx(1 / 3, rel=0.25)


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_standard_error_is_the_spread_of_means(rho):
    """Of 200 repetitions the means are N(0, error^2): their mean square is 1 +- 0.1, five of which is 0.5."""
    repetitions = autoregressive(rho, 2 * 200, 2000).view(200, 2, 2000)
    squares = [(float(x.mean()) / standard_error(x)) ** 2 for x in repetitions]
    assert sum(squares) / 200 == pytest.approx(1, abs=0.5)


def test_chains_that_disagree_have_a_large_error():
    x = autoregressive(0.0, 2, 1000)
    agreeing = standard_error(x)
    x[1] += 5
    assert standard_error(x) > 20 * agreeing


def test_constants_and_short_chains():
    assert autocorrelation_time(torch.ones(2, 10)) == 1
    assert standard_error(torch.ones(2, 10)) == 0
    assert math.isnan(standard_error(torch.ones(2, 3)))


@pytest.mark.parametrize("shape", [(5,), (2, 3, 4), (0, 5)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"chains: a tensor of shape .*; must be \(chains, draws\)"):
        standard_error(torch.zeros(shape))


def test_arviz_gets_the_chains():
    x = torch.randn(3, 50, 2)
    data = to_arviz({"x": x, "y": x[..., 0]})
    assert data.posterior["x"].shape == (3, 50, 2)
    torch.testing.assert_close(torch.from_numpy(data.posterior["y"].values), x[..., 0].double())


def test_more_chains_than_draws_are_no_mistake():
    assert to_arviz({"x": torch.zeros(9, 4)}).posterior["x"].shape == (9, 4)


def test_convergence_by_arviz():
    """ESS = draws / time: 4 x 5,000 / 19 = 1,053, to 25 %; chains apart have R-hat well above 1.01."""
    x = autoregressive(0.9, 4, 5000)
    apart = x + torch.arange(4).unsqueeze(1)
    found = convergence({"x": x, "apart": apart})
    assert found["x"].ess == pytest.approx(1053, rel=0.25)
    assert found["x"].autocorrelation_time == pytest.approx(19, rel=0.25)
    assert found["x"].rhat < 1.02
    assert found["apart"].rhat > 1.3
    assert found["x"].error == pytest.approx(standard_error(x), rel=0.25)


def test_a_single_chain_is_compared_with_itself():
    x = autoregressive(0.5, 1, 4000)
    drifting = x + torch.linspace(0, 5, 4000)
    found = convergence({"x": x, "drifting": drifting})
    assert found["x"].rhat < 1.02
    assert found["drifting"].rhat > 1.3


def test_a_quantity_without_draws_is_refused():
    with pytest.raises(ValueError, match=r"chains\['x'\]: shape \(5,\); must be \(chains, draws, \.\.\.\)"):
        to_arviz({"x": torch.zeros(5)})


def test_a_missing_library_is_asked_for_by_its_extra(monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == "arviz"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ModuleNotFoundError, match=r'ArviZ needs arviz, .* "colangevin\[sampling\]"'):
        to_arviz({"x": torch.zeros(2, 5)})
