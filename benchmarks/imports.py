"""How long an import takes: torch's, and ours, which imports torch."""

import subprocess
import sys
from functools import partial

from benchmarks.machine import version
from benchmarks.measure import Budget, times
from benchmarks.sheet import Row
from benchmarks.timing import alternate

__all__ = ["NAME", "measure_imports"]

NAME = "import, × that of torch"
_LIBRARIES = ("torch", "colangevin")
_IMPORT = "import time; begun = time.perf_counter(); import {}; print(1e3 * (time.perf_counter() - begun))"


def measure_imports(budget: Budget) -> list[Row]:
    """Time imports, each in a process of its own; the ratio is to torch's.

    Args:
        budget: of each library.

    Returns:
        A row for each library; one that cannot be imported has a row that says so.
    """
    turns = {library: partial(_import, library) for library in _LIBRARIES}
    timings = alternate(turns, seconds=budget.timing, repeats=budget.repeats)
    rows = []
    for library, timing in timings.items():
        row = Row(NAME, "import", library, version(library), "eager", note=timing.failure)
        if timing.times:
            times(row, timing, timings[_LIBRARIES[0]])
        rows.append(row)
    return rows


def _import(library: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT.format(library)], capture_output=True, text=True, check=True
    )
    return [float(done.stdout)]
