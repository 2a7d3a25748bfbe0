"""``colangevin info``: every line says what is in use, or why not. It needs torch alone."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import colangevin
from colangevin import info as module
from colangevin.info import info
from colangevin.native import library as loader
from tests.test_extras import HIDE


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(loader.ENVIRONMENT, raising=False)
    forget()
    yield
    forget()


def forget() -> None:
    loader.library.cache_clear()
    loader._found.cache_clear()


def line(start: str) -> str:
    """The line of the text with that beginning."""
    (found,) = [line for line in info().splitlines() if line.startswith(start)]
    return found


def test_versions() -> None:
    assert line("colangevin").startswith(
        f"colangevin {colangevin.__version__}, torch {torch.__version__}, Python 3."
    )


@pytest.mark.parametrize(
    ("pool", "threads"),
    [
        (1, f"{torch.get_num_threads()} of torch's OpenMP threads"),
        (0, "one thread: torch has no OpenMP to share"),
    ],
)
def test_a_native_library_in_use(monkeypatch: pytest.MonkeyPatch, pool: int, threads: str) -> None:
    found = SimpleNamespace(variant="avx2", pool=pool, path=Path("/there/native.so"))
    monkeypatch.setattr(module, "why_not", lambda: "")
    monkeypatch.setattr(module, "library", lambda: found)
    text = f"CPU, native library: in use: avx2 instructions, {threads}, {found.path}"
    assert line("CPU") == text


def test_a_native_library_that_is_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loader.ENVIRONMENT, "0")
    assert line("CPU") == "CPU, native library: not in use: COLANGEVIN_NATIVE=0 turns it off"


def test_a_native_library_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loader.load, "__defaults__", (tmp_path / "lost.so",))
    assert "not in use: " in line("CPU")
    assert "lost.so does not exist" in line("CPU")


def test_a_broken_native_library_is_a_line_and_no_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "garbage.so"
    path.write_bytes(b"garbage")
    monkeypatch.setattr(loader.load, "__defaults__", (path,))
    assert line("CPU").startswith(f"CPU, native library: not in use: {path} cannot be loaded")


def test_no_cuda_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert line("CUDA") == "CUDA, Triton kernels: not in use: torch finds no CUDA device"


def test_no_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(module, "triton_runs_on", lambda device: False)
    assert (
        line("CUDA") == "CUDA, Triton kernels: not in use: triton is not installed. Run: pip install triton"
    )


@pytest.mark.parametrize(("count", "more"), [(1, ""), (3, " and 2 more")])
def test_cuda_devices(monkeypatch: pytest.MonkeyPatch, count: int, more: str) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "Some GPU")
    monkeypatch.setattr(module, "triton_runs_on", lambda device: True)
    assert line("CUDA") == f"CUDA, Triton kernels: in use: Some GPU{more}"


@pytest.mark.parametrize(
    ("word", "answer"), [("info", "CPU, native library: "), ("--version", "colangevin ")]
)
def test_the_command_needs_torch_alone(word: str, answer: str) -> None:
    hide = HIDE.format(hidden=("numpy", "rich", "typer"))
    script = f"{hide}\nsys.argv[1:] = [{word!r}]\nfrom colangevin.__main__ import main\nmain()"
    command = [sys.executable, "-W", "ignore", "-c", script]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer in said.stdout
