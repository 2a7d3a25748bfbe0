"""The rule of make: it compiles again what changed, and goes on without a compiler."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NATIVE = "src/colangevin/native"
LIBRARY = f"{NATIVE}/colangevin_native.so"
# In the place of compile.py: one line for each compilation.
COUNTING = f"""
with open({LIBRARY!r}, "a") as file:
    file.write("compiled\\n")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The Makefile and the sources."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(ROOT / NATIVE, tmp_path / NATIVE, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    return tmp_path


def make(tree: Path, *words: str, **environment: str) -> str:
    """Run make with an interpreter that is not its own; it must not fail."""
    command = ["make", f"PYTHON={sys.executable}", *words]
    if not shutil.which("make"):
        pytest.skip("needs make")
    said = subprocess.run(
        command, cwd=tree, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return said.stdout + said.stderr


def test_without_a_compiler_it_goes_on(tree: Path) -> None:
    assert "no C compiler was found (tried /nonexistent)" in make(tree, LIBRARY, CC="/nonexistent")
    assert not (tree / LIBRARY).exists()


@pytest.mark.parametrize("target", ["demo", "test", "test-slow", "test-gpu", "bench", "bench-gpu"])
def test_whatever_steps_compiles_first(tree: Path, target: str) -> None:
    lines = make(tree, "--dry-run", target).splitlines()
    (compiles,) = [number for number, line in enumerate(lines) if line.endswith(f"{NATIVE}/compile.py")]
    (first, *_) = [
        number
        for number, line in enumerate(lines)
        if "-m colangevin" in line or "-m pytest" in line or "-m benchmarks" in line
    ]
    assert compiles < first


def test_a_source_that_changed_is_compiled_again(tree: Path) -> None:
    (tree / NATIVE / "compile.py").write_text(COUNTING)
    library, source = tree / LIBRARY, tree / NATIVE / "sources" / "job.h"

    def compilations() -> int:
        make(tree, LIBRARY)
        return len(library.read_text().splitlines())

    assert compilations() == 1
    assert compilations() == 1
    later = library.stat().st_mtime + 10
    os.utime(source, (later, later))
    assert compilations() == 2


def test_clean_removes_the_library(tree: Path) -> None:
    (tree / LIBRARY).touch()
    for folder in ("tests", "benchmarks", "examples"):
        (tree / folder).mkdir()
    make(tree, "clean")
    assert not (tree / LIBRARY).exists()
