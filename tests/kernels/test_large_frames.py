"""Large matrices, whose products cuBLAS makes, move as the plain path moves them."""

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.step import plan
from colangevin.step.fused import large_frames

SHAPES = ((32, 64), (64, 32), (32, 32), (8, 6))
STEPS = 2


@pytest.fixture(autouse=True)
def smaller(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of a few tiles are large."""
    if device.type == "cpu":
        monkeypatch.setattr(large_frames, "_LARGE", 32)
        # what the interpreter multiplies; it has float16's range, and gradients here are of size 1
        monkeypatch.setattr(large_frames, "_TOP", torch.float16)
    else:
        monkeypatch.setattr(large_frames, "_LARGE", 256)


def shapes(device: torch.device) -> list[tuple[int, ...]]:
    return [tuple((1 if device.type == "cpu" else 8) * side for side in shape) for shape in SHAPES]


def run(device: torch.device, size: float, steps: int = STEPS, **options) -> cl.CoLud:
    torch.manual_seed(0)
    weights = [nn.Parameter(cl.Orthogonal().init_(torch.randn(shape)).to(device)) for shape in shapes(device)]
    groups = [
        {"params": [(f"w{k}", weight)], "constraint": cl.Orthogonal()} for k, weight in enumerate(weights)
    ]
    groups[1]["lr"] = 0.15
    optimizer = cl.CoLud(groups, 0.2, friction=1.0, **options)
    draw = torch.Generator().manual_seed(1)
    for _ in range(steps):
        for weight in weights:
            scale = size / (weight.shape[0] ** 0.5 + weight.shape[1] ** 0.5)  # the norm of such a matrix
            weight.grad = (scale * torch.randn(weight.shape, generator=draw)).to(weight)
        optimizer.step()
    return optimizer


def compare(monkeypatch, device, size: float, tolerance: float, **options) -> None:
    ours = run(device, size, **options)
    with monkeypatch.context() as patch:
        patch.setattr(plan, "family", lambda entry, dynamics: None)
        plain = run(device, size, **options)
    assert ours._plan.watching
    assert not plain._plan.watching
    for one, other in zip(ours.state, plain.state, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)
        for key, value in plain.state[other].items():
            torch.testing.assert_close(ours.state[one][key], value, rtol=0, atol=tolerance * max(1, size))
    assert max(cl.diagnostics.violation(ours).values()) <= 1e-5
    assert max(cl.diagnostics.cotangency(ours).values()) <= 4e-5


@pytest.mark.parametrize(("size", "splitting"), [(0.0, "OBA"), (0.1, "OBA"), (1.0, "BAOAB")])
def test_short_steps(monkeypatch, device, size, splitting):
    compare(monkeypatch, device, size, 2e-4, splitting=splitting, temperature=1e-4, seed=3)


def test_a_step_too_long_for_it(monkeypatch, device):
    compare(monkeypatch, device, 300.0, 1e-2, steps=1)
