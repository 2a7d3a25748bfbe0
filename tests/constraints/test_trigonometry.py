"""The polynomials of a compiled step: sine and cosine to rounding, on every angle that a step can have."""

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from colangevin.constraints.trigonometry import cosine, sine
from colangevin.step.angles import largest_angle, write_cosine, write_sine

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


@pytest.mark.parametrize("turn", [1.0, 0.5, 0.01], ids=["all angles", "up to a right one", "small"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_what_is_written_has_the_precision_of_the_dtype(dtype: torch.dtype, turn: float) -> None:
    x = angles().to(dtype)
    x = x[x.abs() <= turn * math.pi]
    exact, out = x.double(), torch.empty_like(x)
    unit = UNITS * torch.finfo(dtype).eps
    write_sine(x, largest_angle(x), 0.05, out)
    right = 0.05 * exact.sin()
    assert float(((out.double() - right).abs() / right.abs().clamp_min(1e-37)).max()) <= unit
    write_cosine(x, largest_angle(x), out)
    assert float((out.double() - exact.cos()).abs().max()) <= unit


@pytest.mark.parametrize("largest", [math.pi / 2, 1.6], ids=["polynomial", "torch"])
def test_polynomials_are_written_up_to_a_right_angle(largest: float) -> None:
    x = torch.linspace(-largest, largest, 1001)
    sines, cosines = torch.empty_like(x), torch.empty_like(x)
    write_sine(x, largest, 1.0, sines)
    write_cosine(x, largest, cosines)
    assert torch.equal(sines, x.sin()) == torch.equal(cosines, x.cos()) == (largest > math.pi / 2)


def test_angles_that_are_no_numbers_stay_so() -> None:
    x = torch.tensor([0.1, math.nan])
    assert math.isnan(largest_angle(x))
    write_sine(x, largest_angle(x), 1.0, x)
    assert x.isnan().tolist() == [False, True]
