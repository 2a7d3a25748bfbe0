"""The kernels in a build that stops at errors of memory and at undefined behaviour."""

import subprocess
from pathlib import Path
from types import ModuleType

import pytest
import torch

from colangevin.native import compile as compiling
from tests.native import exercise, steps
from tests.native.processes import run_alone

FLAGS = ["-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.fixture(scope="module")
def runtime(compiler: list[str]) -> str:
    """The sanitizer's own library, which has to be in the process before Python is."""
    said = subprocess.run(
        [*compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    )
    path = Path(said.stdout.strip())
    if not path.is_absolute():
        pytest.skip("needs the address sanitizer of gcc")
    return str(path)


@pytest.fixture(scope="module")
def library(compiler: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiling.compile_library(tmp_path_factory.mktemp("sanitized") / "sanitized.so", FLAGS)


def sanitized(
    module: ModuleType, library: Path, runtime: str, tmp_path: Path
) -> subprocess.CompletedProcess[str]:
    environment = {
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python leaves memory to the end of its process
        "PYTHONMALLOC": "malloc",  # each piece of memory with its own end
    }
    return run_alone(module, library, tmp_path / "results.pt", **environment)


def test_all_kernels_stay_within_their_memory(library: Path, runtime: str, tmp_path: Path) -> None:
    said = sanitized(exercise, library, runtime, tmp_path)
    assert said.returncode == 0, said.stderr
    assert (tmp_path / "results.pt").exists()


def test_optimizers_give_the_library_enough_memory(library: Path, runtime: str, tmp_path: Path) -> None:
    said = sanitized(steps, library, runtime, tmp_path)
    assert said.returncode == 0, said.stderr
    assert all(torch.load(tmp_path / "results.pt").values())  # each function was called


PLANTED = {
    "a write behind the end": (
        "job->findings[unit].checksum = checksum(w, start, stop);",
        "job->findings[unit + 1].checksum = checksum(w, start, stop);",
        "heap-buffer-overflow",
    ),
    "an overflow of signed numbers": (
        "    int64_t start, stop;\n",
        "    volatile int64_t start = INT64_MAX, stop = start + 1;\n",
        "signed integer overflow",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_an_error_that_is_planted_is_found(
    monkeypatch: pytest.MonkeyPatch, runtime: str, tmp_path: Path, name: str
) -> None:
    right, wrong, message = PLANTED[name]
    # The loader is to take it for the library of the sources that are there.
    flags = ["-UCOLANGEVIN_FINGERPRINT", f'-DCOLANGEVIN_FINGERPRINT="{compiling.fingerprint()}"']
    sources = tmp_path / "sources"
    sources.mkdir()
    for path in compiling.SOURCES.iterdir():
        (sources / path.name).write_bytes(path.read_bytes())
    kernels = sources / "kernels.c"
    text = kernels.read_text()
    assert right in text
    kernels.write_text(text.replace(right, wrong))
    monkeypatch.setattr(compiling, "SOURCES", sources)
    library = compiling.compile_library(tmp_path / "planted.so", [*FLAGS, *flags])
    said = sanitized(exercise, library, runtime, tmp_path)
    assert said.returncode != 0
    assert message in said.stderr
