"""The fused path on whatever is there: CUDA, or the CPU under Triton's interpreter with smaller blocks."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from colangevin import kernels
from colangevin.kernels import movers, projection


@pytest.fixture(params=["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """Where fused steps run in a test."""
    if request.param == "cuda":
        yield torch.device("cuda")
        return
    if torch.cuda.is_available():
        pytest.skip("Triton compiles for CUDA here")
    monkeypatch.setattr(kernels, "_INTERPRETED", True)
    monkeypatch.setattr(movers, "_BLOCK", 64)
    monkeypatch.setattr(movers, "_TILE", 64)
    monkeypatch.setattr(projection, "_TILE", 16)
    monkeypatch.setattr(projection, "_WIDE", 32)
    monkeypatch.setattr(projection, "_LONG", 16)
    monkeypatch.setattr(projection, "_SHORT", 16)
    # the interpreter cannot multiply bfloat16, and where that holds a number float16 may overflow
    monkeypatch.setattr(projection, "_PART", torch.float16)
    monkeypatch.setattr(projection, "_NEWTON_SCHULZ", 12)
    with np.errstate(over="ignore", invalid="ignore"):
        yield torch.device("cpu")
