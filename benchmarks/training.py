"""A whole training step of ResNet-34: what a constraint costs end to end."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

import colangevin as cl
from benchmarks.contender import LR, MOMENTUM, Run, orthogonality
from benchmarks.machine import version
from benchmarks.measure import Budget, times
from benchmarks.sheet import Row
from benchmarks.timing import VARIANTS, alternate, failure
from colangevin.experiments.models.resnet import ResNet34

__all__ = ["NAME", "measure_training"]

NAME = "ResNet-34 training step, batch 128"
_BATCH, _WARM, _TURN = 128, 10, 10


def _sgd(model: nn.Module) -> tuple[Optimizer, list[torch.Tensor]]:
    return torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM, fused=True), []


def _colud(model: nn.Module) -> tuple[Optimizer, list[torch.Tensor]]:
    """o-CoLud at SGD's step size and momentum: h^2 is its learning rate, exp(-friction h) its momentum."""
    orthogonal = cl.Orthogonal()
    rules = {"stem.weight": None, nn.Conv2d: orthogonal, nn.Linear: orthogonal}
    groups = cl.constrain(model, rules, init="draw")
    h = math.sqrt(LR)
    optimizer = cl.CoLud(groups, lr=h, friction=-math.log(MOMENTUM) / h)
    held = [
        p for group in optimizer.param_groups if group["constraint"] == orthogonal for p in group["params"]
    ]
    return optimizer, held


def _run(build: Callable[[nn.Module], tuple[Optimizer, list[torch.Tensor]]], device: torch.device) -> Run:
    torch.manual_seed(0)
    model = ResNet34().to(device, memory_format=torch.channels_last)
    optimizer, held = build(model)
    images = torch.randn(_BATCH, 3, 32, 32, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(10, (_BATCH,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    def state() -> list[torch.Tensor]:
        entries = optimizer.state.values()
        return [value for entry in entries for value in entry.values() if isinstance(value, torch.Tensor)]

    return Run(
        list(model.parameters()),
        lambda: None,
        step,
        lambda: iter(state()),
        partial(orthogonality, held) if held else None,
    )


def measure_training(device: torch.device, budget: Budget) -> list[Row]:
    """Time training steps, forward and backward included: SGD, and o-CoLud on all but the first convolution.

    Args:
        device: a CUDA device.
        budget: of each method; there is no drift.

    Returns:
        A row for each method and variant.
    """
    methods = {"SGD-m, fused": ("torch", _sgd), "orthogonal": ("colangevin", _colud)}
    runs: dict[str, Run] = {}
    notes: dict[str, str] = {}
    peaks: dict[str, float] = {}
    for method, (_, build) in methods.items():
        try:
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            runs[method] = _run(build, device)
            for _ in range(_WARM):
                runs[method].step()
            torch.cuda.synchronize()
            peaks[method] = (torch.cuda.max_memory_allocated() - before) / 2**20
        except Exception as error:  # whatever goes wrong is a result
            notes[method] = failure(error)
            runs.pop(method, None)
    rows = []
    for variant in VARIANTS["cuda"][:2]:
        turns = {method: partial(variant.turn, run, run.step, _TURN) for method, run in runs.items()}
        timings = alternate(turns, seconds=budget.timing, repeats=budget.repeats)
        for method, (library, _) in methods.items():
            row = Row(NAME, method, library, version(library), variant.name, note=notes.get(method, ""))
            rows.append(row)
            if method not in runs:
                continue
            if timings[method].failure:
                row.note = timings[method].failure
                continue
            run = runs[method]
            times(row, timings[method], timings.get("SGD-m, fused"))
            weights = sum(weight.numel() for weight in run.weights)
            row.state_bytes_per_weight = sum(t.numel() * t.element_size() for t in run.state()) / weights
            row.peak_mib = peaks[method]
            row.error = run.error() if run.error else None
            row.note = "peak with weights, gradients and activations"
    return rows
