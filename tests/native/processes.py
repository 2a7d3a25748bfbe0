"""The exercise in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from tests.native import exercise

ROOT = Path(__file__).parents[2]


def run_exercise(library: Path, results: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the exercise on a library; results are stored only if all went well."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), *sys.path])
    return subprocess.run(
        [sys.executable, exercise.__file__, library, results],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
