"""``import colangevin`` takes little longer than ``import torch``: it imports nothing besides itself."""

import subprocess
import sys

import pytest

import colangevin

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


def test_what_training_does_not_need_comes_when_it_is_asked_for() -> None:
    script = """
import sys, colangevin
assert not {name for name in sys.modules if name.startswith(("colangevin.diag", "colangevin.samp"))}
print(colangevin.diagnostics.violation.__module__, colangevin.quality.__module__)
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert said == ["colangevin.diagnostics.feasibility", "colangevin.sampling.quality"]


def test_every_public_name_is_there_and_listed() -> None:
    for name in colangevin.__all__:
        assert getattr(colangevin, name) is not None
        assert name in dir(colangevin)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'colangevin' has no attribute 'Orthogonale'$"):
        _ = colangevin.Orthogonale  # type: ignore[attr-defined]
