"""The loader: what it refuses, in which words, and what the environment asks for."""

import ctypes
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import colangevin as cl
from colangevin.native import library as loader
from colangevin.native import tables
from colangevin.native.compile import LIBRARY, SOURCES, fingerprint
from colangevin.native.library import ENVIRONMENT, Library, UnusableError, load

STRUCTURES = (tables.Program, tables.Weight, tables.Finding, tables.Job)
RIGHT = [ctypes.sizeof(structure) for structure in STRUCTURES]

Build = Callable[[str], Path]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is loaded at the start, and nothing that a test loaded stays."""
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    forget()
    yield
    forget()


def forget() -> None:
    loader.library.cache_clear()
    loader._found.cache_clear()


@pytest.fixture
def build(compiler: list[str], tmp_path: Path) -> Build:
    """Compile a few lines of C to a library."""

    def built(text: str) -> Path:
        source, target = tmp_path / "few.c", tmp_path / "few.so"
        source.write_text(text)
        subprocess.run([*compiler, "-shared", "-fPIC", "-o", target, source], check=True)
        return target

    return built


def words(hash_of_sources: str, sizes: list[int]) -> str:
    """A library that has the functions of ours, but does nothing beyond what the loader compares."""
    exported = re.findall(r"EXPORT .*?(colangevin_\w+)\(", (SOURCES / "library.c").read_text())
    answers = {
        "colangevin_fingerprint": f'return (long long)"{hash_of_sources}";',
        "colangevin_sizes": f"return (const int[]){{{', '.join(map(str, sizes))}}}[which];",
        "colangevin_variant": 'return (long long)"none";',
    }
    return "\n".join(
        f"long long {name}(int which) {{ {answers.get(name, 'return which;')} }}" for name in exported
    )


def test_a_missing_file_is_not_broken(tmp_path: Path) -> None:
    with pytest.raises(UnusableError, match=r"lost\.so does not exist: .* without a C compiler") as caught:
        load(tmp_path / "lost.so")
    assert not caught.value.broken
    assert str(LIBRARY.with_name("compile.py")) in caught.value.reason


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    path = tmp_path / "garbage.so"
    path.write_bytes(b"garbage " * 1000)
    with pytest.raises(UnusableError, match=r"garbage\.so cannot be loaded \(.*\)\. Compile") as caught:
        load(path)
    assert caught.value.broken


def test_a_library_without_our_functions(build: Build) -> None:
    with pytest.raises(UnusableError, match=r"few\.so cannot be loaded \(.*colangevin_fingerprint"):
        load(build("int nothing(void) { return 0; }"))


def test_a_library_of_other_sources(build: Build) -> None:
    text = rf"few\.so was compiled from other sources \(0123\) than those beside it \({fingerprint()}\)"
    with pytest.raises(UnusableError, match=text):
        load(build(words("0123", RIGHT)))


@pytest.mark.parametrize("number", range(len(STRUCTURES)))
def test_a_library_with_other_structures(build: Build, number: int) -> None:
    sizes = list(RIGHT)
    sizes[number] += 8
    text = f"has {sizes[number]} bytes in a {STRUCTURES[number].__name__}, and tables.py has {RIGHT[number]}"
    with pytest.raises(UnusableError, match=text):
        load(build(words(fingerprint(), sizes)))


def test_the_loader_takes_what_it_has_nothing_against(build: Build) -> None:
    assert load(build(words(fingerprint(), RIGHT))).variant == "none"


def test_the_installed_library_is_in_use(native: Library) -> None:
    found = loader.library()
    assert found is not None
    assert found is loader.library()
    assert loader.why_not() == ""
    assert (found.path, found.variant) == (LIBRARY, native.variant)


def test_the_pool_of_threads_is_that_of_torch(native: Library) -> None:
    if "OpenMP" not in torch.__config__.parallel_info() or not Path("/proc/self/maps").exists():
        pytest.skip("torch has no OpenMP here, or the process cannot see its own memory map")
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = {line[0]: line[-1] for line in lines if len(line) > 5}
    held = [
        path
        for span, path in spans.items()
        if int(span.split("-")[0], 16) <= native.pool < int(span.split("-")[1], 16)
    ]
    assert len(held) == 1
    assert Path(held[0]).is_relative_to(Path(torch.__file__).resolve().parent)


def test_zero_turns_it_off_without_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loader.library() is None
    assert loader.why_not() == "COLANGEVIN_NATIVE=0 turns it off"


def test_one_is_the_default(native: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "1")
    assert load().variant == native.variant


@pytest.mark.parametrize("most", ["baseline", "avx2", "avx512"])
def test_the_environment_caps_the_instructions(
    native: Library, monkeypatch: pytest.MonkeyPatch, most: str
) -> None:
    ladder = ["baseline", "avx2", "avx512"]
    monkeypatch.setenv(ENVIRONMENT, most)
    capped = load().variant
    assert ladder.index(capped) == min(ladder.index(most), ladder.index(native.variant))
    monkeypatch.delenv(ENVIRONMENT)
    load()  # the library is one for the process: it goes back to what it had


def test_a_wish_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "sse9")
    text = r"COLANGEVIN_NATIVE='sse9' is not known\. Set it to 0 .* baseline, avx2, avx512 to cap"
    with pytest.warns(UserWarning, match=text):
        assert loader.library() is None


def test_a_broken_library_is_one_warning_and_steps_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "garbage.so"
    path.write_bytes(b"garbage")
    monkeypatch.setattr(loader.load, "__defaults__", (path,))
    text = r"The native library is not used: .*garbage\.so cannot be loaded .* in plain torch"
    with pytest.warns(UserWarning, match=text) as caught:
        assert loader.library() is None
    assert len(caught) == 1
    assert loader.library() is None  # and no second warning, which would be an error here
    assert "cannot be loaded" in loader.why_not()
    weight = torch.nn.Parameter(torch.full((3, 4), 0.1))
    weight.grad = torch.ones(3, 4)
    cl.CoLud([{"params": [weight], "constraint": cl.Circle(1.0)}], lr=0.1, friction=1.0).step()
    assert (weight < 0.1).all()


def test_importing_the_package_does_not_load_it() -> None:
    script = (
        "import colangevin, sys; loaded = sys.modules.get('colangevin.native.library');"
        "assert loaded is None or loaded._found.cache_info().currsize == 0"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("wish", ["0", "1", "baseline", "avx2", "avx512"])
def test_the_documentation_names_what_the_environment_may_ask_for(wish: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / "native.md").read_text(encoding="utf-8")
    assert f"`{wish}`" in text
