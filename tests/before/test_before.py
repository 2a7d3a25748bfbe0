"""Checkpoints and samples of an earlier version: they load, and the runs go on as they went on then."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import colangevin as cl
from tests.before.write import DTYPES, FOLDER, OPTIMIZERS, Model, build, collect, read, saved, train

# The native library has other sines than the version that wrote these, and sums rows in another order. A
# weight in half precision may then be rounded the other way.
TOLERANCES = {torch.float64: 1e-14, torch.float32: 4e-6, torch.bfloat16: 2**-7, torch.float16: 2**-10}

# Another version of Python than the one that wrote these compiles g to other bytecode, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:.*cannot be seen in full:UserWarning")


def assert_same(ours: Any, theirs: Any, path: str = "") -> None:
    """Up to rounding."""
    if isinstance(theirs, Tensor):
        assert ours.dtype == theirs.dtype, path
        assert ours.shape == theirs.shape, path
        tolerance = TOLERANCES.get(theirs.dtype, 0)
        torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), path
        for key in theirs:
            assert_same(ours[key], theirs[key], f"{path}[{key!r}]")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), path
        for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, f"{path}[{i}]")
    else:
        assert ours == theirs, path


def saved_as_then(model: Model, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What a run goes on from, without what groups did not have then."""
    now = saved(model, optimizer)
    for group in now["optimizer"]["param_groups"]:
        assert group.pop("noise_by") == "index"
    return now


@pytest.mark.parametrize("case", [*DTYPES, "replicas"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_goes_on(optimizer: str, case: str) -> None:
    file = read(f"{optimizer}.pt.gz")
    stored = file["cases"][case]
    model, optim = build(optimizer, DTYPES.get(case, torch.float32), 3 if case == "replicas" else 0)
    model.load_state_dict(stored["middle"]["model"])
    optim.load_state_dict(stored["middle"]["optimizer"])
    train(model, optim, 3)
    assert_same(saved_as_then(model, optim), stored["end"])


def test_samples_are_read_and_collected_on(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "samples", tmp_path / "samples")
    file = read("samples.pt.gz")
    middle, end = file["middle"], file["end"]
    model, optim = build("CoLud-BAOAB", torch.float32, 0)
    model.load_state_dict(middle["model"])
    optim.load_state_dict(middle["optimizer"])
    samples = cl.Samples.load(tmp_path / "samples", model)
    samples.load_state_dict(middle["samples"])
    assert len(samples) == 2
    assert_same(samples[1], middle["model"])
    collect(model, optim, samples, 3)
    assert len(samples) == 3
    assert_same(saved_as_then(model, optim), end)
