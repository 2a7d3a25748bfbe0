"""Non-negative weights under steps that are far too long: roots stop where their squares are numbers."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

import colangevin as cl

#: a quarter of the largest number in float16, else the root of the largest
LARGEST = {
    torch.float16: 2.0**14,
    torch.bfloat16: 2.0**64,
    torch.float32: 2.0**64,
    torch.float64: 2.0**512,
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
def test_they_stop_where_their_squares_are_numbers(method: str, dtype: torch.dtype) -> None:
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
@pytest.mark.parametrize("dtype", LARGEST, ids=str)
def test_the_force_of_weight_decay_there_is_a_number(dtype: torch.dtype) -> None:
    weight = nn.Parameter(torch.full((40,), LARGEST[dtype], dtype=dtype))
    group = {"params": [weight], "constraint": cl.NonNegative(), "weight_decay": 0.1}
    optimizer = cl.CoLud([group], 10.0, friction=0.0)
    for _ in range(20):
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
        assert bool(weight.isfinite().all())
        assert bool(optimizer.state[weight]["momentum"].isfinite().all())


@pytest.mark.usefixtures("on_either_path")
def test_they_come_back() -> None:
    weight = nn.Parameter(torch.ones(40))
    optimizer = cl.CoLod([{"params": [weight], "constraint": cl.NonNegative()}], 0.1)
    for slope in [-1e30] * 10 + [1.0] * 150:
        weight.grad = torch.full_like(weight, slope)
        optimizer.step()
    assert 0 < float(weight.detach().max()) < 1e-5
