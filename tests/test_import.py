"""``import colangevin`` takes little longer than ``import torch``: it imports nothing besides itself."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys, torch
before = set(sys.modules)
import {}
print(*sorted(name for name in set(sys.modules) - before if name.partition(".")[0] != "colangevin"))
"""


def brought_by(module: str) -> list[str]:
    """What a module imports beyond torch and the library."""
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT.format(module)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_the_library_imports_nothing_that_torch_has_not() -> None:
    """The compiler of torch alone would take as long as torch."""
    assert brought_by("colangevin") == []


@pytest.mark.parametrize("module", ["torch._dynamo", "decimal"])
def test_an_import_is_seen(module: str) -> None:
    assert module in brought_by(module)
