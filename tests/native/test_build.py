"""The build hook: a wheel with the library where there is a compiler, and a pure one where there is none."""

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from colangevin.native.compile import SOURCES, CompileError, compile_library

ROOT = Path(__file__).parents[2]
LIBRARY = "colangevin/native/colangevin_native.so"
NO_COMPILER = {"CC": "/nonexistent/cc"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build reads, so that none of the tests writes into the checkout."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, tree)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    return tree


def build(tree: Path, kind: str, **environment: str) -> tuple[Path, str]:
    """The wheel or the source distribution, and what the build said."""
    folder = tree / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder]
    said = subprocess.run(
        command, cwd=tree, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    (path,) = folder.iterdir()
    return path, said.stdout + said.stderr


def test_without_a_compiler_the_wheel_is_pure_and_the_log_says_why(tree: Path) -> None:
    path, said = build(tree, "wheel", **NO_COMPILER)
    assert path.name.endswith("-py3-none-any.whl")
    assert "installed without its native library: no C compiler was found (tried /nonexistent/cc)" in said
    names = zipfile.ZipFile(path).namelist()
    assert LIBRARY not in names
    assert {f"colangevin/native/sources/{source.name}" for source in SOURCES.iterdir()} <= set(names)


def test_a_release_demands_the_library(tree: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        build(tree, "wheel", COLANGEVIN_NATIVE_REQUIRED="1", **NO_COMPILER)
    assert "no C compiler was found (tried /nonexistent/cc)" in caught.value.stderr


@pytest.mark.usefixtures("compiler")
def test_with_a_compiler_the_wheel_has_the_library_and_uses_it(tree: Path, tmp_path: Path) -> None:
    path, _ = build(tree, "wheel")
    assert re.search(rf"-py3-none-\w+_{platform.machine()}\.whl$", path.name)
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(tmp_path)
        (metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL")]
        assert b"Root-Is-Purelib: false" in wheel.read(metadata)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    environment.pop("COLANGEVIN_NATIVE", None)
    command = [sys.executable, "-m", "colangevin", "info"]
    said = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "native library: in use" in said.stdout
    assert str(tmp_path / LIBRARY) in said.stdout


def test_the_source_distribution_has_what_a_build_needs(tree: Path) -> None:
    path, _ = build(tree, "sdist")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"hatch_build.py", "pyproject.toml", "src/colangevin/native/compile.py"} <= names
    assert {f"src/colangevin/native/sources/{source.name}" for source in SOURCES.iterdir()} <= names
    assert f"src/{LIBRARY}" not in names


def test_a_path_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompileError, match=r"no C compiler was found \(tried cc, gcc, clang\)"):
        compile_library(tmp_path / "library.so")


def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\necho no room left\nexit 3\n")
    failing.chmod(0o755)
    monkeypatch.setenv("CC", str(failing))
    with pytest.raises(CompileError, match=r"failing -std=c11 .* ended with 3:\nno room left"):
        compile_library(tmp_path / "library.so")
    assert list(tmp_path.iterdir()) == [failing]
