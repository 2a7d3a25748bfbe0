"""The exercise, and steps of optimizers, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from tests.native import exercise

ROOT = Path(__file__).parents[2]


def run_alone(
    module: ModuleType, library: Path, results: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a module on a library; results are stored only if all went well."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), *sys.path])
    return subprocess.run(
        [sys.executable, str(module.__file__), library, results],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run_exercise(library: Path, results: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the exercise on a library."""
    return run_alone(exercise, library, results, **environment)
