"""The polynomials of a compiled step: sine and cosine to rounding, on every angle that a step can have."""

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from colangevin.constraints.trigonometry import cosine, sine

EPS = torch.finfo(torch.float32).eps
UNITS = 2.0  # of the last place


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No graphs of other tests."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def angles() -> Tensor:
    """Evenly spaced, and as near to 0, a right angle and a straight one as float32 can be."""
    near = torch.logspace(-38, 0, 100_001, dtype=torch.float64)
    corners = torch.cat([near, math.pi / 2 - near, math.pi / 2 + near, math.pi - near])
    positive = torch.cat([torch.linspace(0, math.pi, 1_000_001, dtype=torch.float64), corners]).float()
    return torch.cat([positive, -positive])


def compiled(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return torch.compile(function, backend="eager")


def test_sine_has_the_relative_precision_of_the_dtype() -> None:
    x = angles()
    exact = x.double().sin()
    error = (compiled(sine)(x).double() - exact).abs()
    assert float((error / exact.abs().clamp_min(1e-37)).max()) <= UNITS * EPS


def test_cosine_has_the_precision_of_one() -> None:
    x = angles()
    error = (compiled(cosine)(x).double() - x.double().cos()).abs()
    assert float(error.max()) <= UNITS * EPS


def test_the_polynomials_are_what_was_compared() -> None:
    x = angles()
    assert not torch.equal(compiled(sine)(x), x.sin())
    assert not torch.equal(compiled(cosine)(x), x.cos())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_other_angles_are_left_to_torch(dtype: torch.dtype) -> None:
    x = angles().to(dtype)
    for ours, theirs in ((sine, torch.sin), (cosine, torch.cos)):
        step = ours if dtype == torch.float32 else compiled(ours)  # not compiled, or not in float32
        assert torch.equal(step(x), theirs(x))
