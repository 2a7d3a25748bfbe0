"""Launches that go past Triton's own front door are still seen by profilers."""

import pytest
import torch
from torch import nn

import colangevin as cl

knobs = pytest.importorskip("triton.knobs")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_profiler_is_told_of_every_launch() -> None:
    weight = nn.Parameter(torch.zeros(100, device="cuda"))
    optimizer = cl.ConstrainedSGD([{"params": [weight], "constraint": cl.Circle(1.0)}], 0.1, momentum=0.9)
    seen: list[str] = []

    def note(metadata) -> None:
        seen.append(metadata.get()["name"])

    def steps(count: int) -> None:
        for _ in range(count):
            weight.grad = torch.ones_like(weight)
            optimizer.step()

    steps(2)
    knobs.runtime.launch_enter_hook.add(note)
    try:
        steps(3)
    finally:
        knobs.runtime.launch_enter_hook.remove(note)
    steps(1)
    assert seen == ["underdamped"] * 3
