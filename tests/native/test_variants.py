"""Every set of instructions gives the same bits, chosen by the environment or by what the processor lacks."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from colangevin.native.compile import compile_library
from colangevin.native.library import ENVIRONMENT, Library
from tests.native.processes import run_exercise


def results(library: Path, most: str, folder: Path) -> tuple[str, dict[str, Tensor]]:
    """The variant that a process took which may use a variant at most, and what it computed."""
    path = folder / "results.pt"
    said = run_exercise(library, path, **{ENVIRONMENT: most})
    assert said.returncode == 0, said.stderr
    found = torch.load(path)
    return found["variant"], found["results"]


@pytest.fixture(scope="module")
def baseline(native: Library, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    variant, found = results(native.path, "baseline", tmp_path_factory.mktemp("baseline"))
    assert variant == "baseline"
    return found


def assert_same_bits(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name, values in found.items() if not torch.equal(values, expected[name])] == []


@pytest.mark.parametrize("most", ["avx2", "avx512"])
def test_instructions_do_not_change_the_numbers(
    native: Library, baseline: dict[str, Tensor], tmp_path: Path, most: str
) -> None:
    variant, found = results(native.path, most, tmp_path)
    if variant != most:
        pytest.skip(f"this processor has no {most}")
    assert_same_bits(found, baseline)


def test_the_optimizer_of_the_compiler_does_not_change_the_numbers(
    baseline: dict[str, Tensor], tmp_path: Path
) -> None:
    library = compile_library(tmp_path / "slow.so", ["-O0"])
    assert_same_bits(results(library, "avx512", tmp_path)[1], baseline)
