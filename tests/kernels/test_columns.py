"""Host and kernels agree on the columns of their tables by name, whatever the order."""

import os
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]

# Kernels read offsets off the classes of rows when they are imported: the classes are replaced before that.
REVERSED = """
import os, sys, torch
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
import pytest
from collections import namedtuple
from colangevin.kernels import columns

loaded = {name for name in sys.modules if name.startswith("colangevin.kernels.")}
assert loaded == {"colangevin.kernels.columns"}
tables = [name for name in columns.__all__ if name[0].isupper()]
assert len(tables) == 12
for name in tables:
    setattr(columns, name, namedtuple(name, getattr(columns, name)._fields[::-1]))
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_fused_steps_are_the_same_with_all_columns_in_reverse(device: torch.device) -> None:
    """The chosen tests use every table and every column, and compare with the plain path."""
    marked, name = ("gpu", "cuda") if device.type == "cuda" else ("not gpu", "interpreter")
    chosen = f"(test_replicas or test_numbers_on_the_device) and {name}"
    command = [
        sys.executable,
        "-c",
        REVERSED,
        *[
            f"tests/kernels/test_{name}.py"
            for name in ("fused", "fused_adam", "layouts", "muon", "wide_rows")
        ],
        "-q",
        "-p",
        "no:benchmark",  # a plugin that warns of the workers of the test around this one
        "-m",
        marked,
        "-k",
        chosen,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "14 passed" in done.stdout
