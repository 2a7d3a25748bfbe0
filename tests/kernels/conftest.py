"""The fused path on whatever is there: CUDA, or the CPU under Triton's interpreter with smaller blocks."""

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from triton import language
from triton.runtime import interpreter

from colangevin.step.fused import (
    adam,
    eligible,
    frame_launches,
    lines,
    matrices,
    muon,
    orthogonalise,
    sphere_tables,
    tilings,
    wide_tables,
)


@pytest.fixture(params=["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """Where fused steps run in a test."""
    if request.param == "cuda":
        yield torch.device("cuda")
        return
    if torch.cuda.is_available():
        pytest.skip("Triton compiles for CUDA here")
    monkeypatch.setattr(interpreter, "_patch_lang", patched_once(interpreter._patch_lang))
    monkeypatch.setattr(eligible, "triton_runs_on", lambda device: True)
    monkeypatch.setattr(lines, "_BLOCK", 64)
    monkeypatch.setattr(adam, "_BLOCK", 64)
    monkeypatch.setattr(sphere_tables, "_TILE", 64)
    monkeypatch.setattr(wide_tables, "_PIECE", 32)
    monkeypatch.setattr(wide_tables, "_AT_ONCE", 2)
    monkeypatch.setattr(tilings, "_TILE", 16)
    monkeypatch.setattr(tilings, "_WIDE", 32)
    monkeypatch.setattr(frame_launches, "_LONG", 16)
    monkeypatch.setattr(frame_launches, "_SHORT", 16)
    monkeypatch.setattr(frame_launches, "_NEWTON_SCHULZ", 12)
    monkeypatch.setattr(muon, "_CHUNK", 64)
    monkeypatch.setattr(orthogonalise, "_BLOCK", 16)
    monkeypatch.setattr(orthogonalise, "_DEPTH", 16)
    monkeypatch.setattr(orthogonalise, "_WORTH_HALVING", 9)
    # the interpreter cannot multiply bfloat16, and where that holds a number float16 may overflow
    monkeypatch.setattr(matrices, "_PART", torch.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        yield torch.device("cpu")


def patched_once(patch: Callable[[FunctionType], Any]) -> Callable[[FunctionType], Any]:
    """Triton's interpreter replaces its language at every call of a device function, which is half of its
    time; once for a launch is enough.

    Args:
        patch: what replaces the language that a function uses, and returns what restores it.

    Returns:
        What takes its place. The outermost call of a launch is the one whose result is used.
    """
    replaced: set[str] = set()

    def once(function: FunctionType) -> Any:
        used = {
            module.__name__
            for module in function.__globals__.values()
            if module is language or module is language.core
        }
        if used <= replaced:
            return None
        scope = patch(function)
        outermost = not replaced
        replaced.update(used)
        if outermost:
            restore = scope.restore
            scope.restore = lambda: (replaced.clear(), restore())
        return scope

    return once
