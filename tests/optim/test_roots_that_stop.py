"""Non-negative weights under steps that are far too long: roots stop where their squares are numbers."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

import colangevin as cl

#: a quarter of the largest number, up to rounding
LARGEST = {
    torch.float16: 2.0**14,
    torch.bfloat16: 2.0**126,
    torch.float32: 2.0**126,
    torch.float64: 2.0**1022,
}
METHODS: dict[str, Callable] = {
    "overdamped": lambda groups: cl.CoLod(groups, 0.1, temperature=0.1, seed=1),
    "OBA": lambda groups: cl.CoLud(groups, 0.1, friction=1.0),
    "OBA-noise": lambda groups: cl.CoLud(groups, 0.1, friction=1.0, temperature=0.1, seed=1),
    "BAOAB": lambda groups: cl.CoLud(groups, 0.1, friction=1.0, temperature=0.1, seed=1, splitting="BAOAB"),
}


@pytest.fixture(params=[True, False], ids=["native", "plain"])
def on_either_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr("colangevin.step.plan.native", lambda entry, dynamics: False)


@pytest.mark.usefixtures("on_either_path")
@pytest.mark.parametrize("dtype", LARGEST, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_they_stop_at_a_quarter_of_the_largest_number(method: str, dtype: torch.dtype) -> None:
    weight = nn.Parameter(torch.linspace(0.1, 1, 300, dtype=torch.float64).to(dtype))
    optimizer = METHODS[method]([{"params": [weight], "constraint": cl.NonNegative()}])
    slope = -torch.finfo(dtype).max / 8
    for _ in range(600 if dtype == torch.float64 else 40):
        weight.grad = torch.full_like(weight, slope)
        optimizer.step()
    assert bool((weight == LARGEST[dtype]).all())
    state = optimizer.state[weight]
    assert all(bool(value.isfinite().all()) for value in state.values())
    assert bool((state["position"].square().to(dtype) == weight).all()), "a stopped root has another weight"
    assert cl.diagnostics.violation(optimizer)["param_groups[0].params[0]"] == 0


@pytest.mark.usefixtures("on_either_path")
def test_they_come_back() -> None:
    weight = nn.Parameter(torch.ones(40))
    optimizer = cl.CoLod([{"params": [weight], "constraint": cl.NonNegative()}], 0.1)
    for slope in [-1e30] * 10 + [1.0] * 230:
        weight.grad = torch.full_like(weight, slope)
        optimizer.step()
    assert 0 < float(weight.detach().max()) < 1e-5
