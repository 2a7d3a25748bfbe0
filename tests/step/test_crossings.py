"""How often one step goes from file to file: a path that a reader can follow has few such turns.

Counted are calls of the library's functions from another file, of a step after the first few.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
import torch
from torch import nn

import colangevin as cl

SOURCE = str(Path(cl.__file__).parent)
# About half of what these steps took when movers had three protocols: 108, 134 and 56.
QUIET, NOISY, FUSED = 54, 67, 30


def crossings(step: Callable[[], object]) -> tuple[int, int]:
    """Calls of the library's functions in a step, and those that come from another file."""
    calls = crossed = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls, crossed
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            calls += 1
            caller = frame.f_back.f_code.co_filename if frame.f_back else ""
            crossed += caller != frame.f_code.co_filename

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        step()
    finally:
        sys.setprofile(before)
    return calls, crossed


def warm(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Three steps, and gradients for the next."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for step in range(4):
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.full_like(parameter, 0.01)
        if step < 3:
            optimizer.step()
    return optimizer


def test_a_circle_step_on_the_cpu_crosses_few_files() -> None:
    for temperature, bound in ((0.0, QUIET), (0.01, NOISY)):
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        groups = cl.constrain(model, {"*weight": cl.Circle(1.0)})
        optimizer = cl.CoLud(groups, lr=0.1, friction=1.0, temperature=temperature, seed=1)
        calls, crossed = crossings(warm(optimizer).step)
        print(f"circle, temperature {temperature}: {crossed} of {calls} calls cross files")
        assert 10 < crossed <= bound


class Silent:
    """A kernel that does nothing."""

    arg_names = ()

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return lambda *arguments, **constants: None


def test_a_fused_orthogonal_step_crosses_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's side of it: kernels are launched, but do nothing."""
    pytest.importorskip("triton")
    from colangevin.step.fused import eligible, launch

    begin = launch.Launch.__init__

    def silent(self: launch.Launch, kernel: object, programs: int, **constants: object) -> None:
        begin(self, kernel, programs, **constants)
        self._kernel = Silent()

    monkeypatch.setattr(launch.Launch, "__init__", silent)
    monkeypatch.setattr(eligible, "triton_runs_on", lambda device: True)
    shapes = [(8, 8), (16, 8), (4, 2, 3, 3)]
    weights = [nn.Parameter(nn.init.orthogonal_(torch.empty(shape))) for shape in shapes]
    groups = [{"params": weights, "constraint": cl.Orthogonal()}, {"params": [nn.Parameter(torch.zeros(8))]}]
    optimizer = warm(cl.CoLud(groups, lr=0.1, friction=1.0))
    assert len(optimizer._plan.watching) == 2
    calls, crossed = crossings(optimizer.step)
    print(f"orthogonal, fused: {crossed} of {calls} calls cross files")
    assert 10 < crossed <= FUSED
