"""The kernels in a build that stops at errors of memory and at undefined behaviour."""

import subprocess
from pathlib import Path

import pytest

from colangevin.native import compile as compiling
from tests.native.processes import run_exercise

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


def sanitized(library: Path, runtime: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    options = "detect_leaks=0"  # Python leaves memory to the end of its process
    return run_exercise(library, tmp_path / "results.pt", LD_PRELOAD=runtime, ASAN_OPTIONS=options)


def test_all_kernels_stay_within_their_memory(runtime: str, tmp_path: Path) -> None:
    library = compiling.compile_library(tmp_path / "sanitized.so", FLAGS)
    said = sanitized(library, runtime, tmp_path)
    assert said.returncode == 0, said.stderr
    assert (tmp_path / "results.pt").exists()


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
    said = sanitized(library, runtime, tmp_path)
    assert said.returncode != 0
    assert message in said.stderr
