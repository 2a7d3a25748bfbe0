"""Every set of instructions gives the same numbers to rounding."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from colangevin.native.compile import compile_library
from colangevin.native.library import ENVIRONMENT, Library
from tests.native.processes import run_exercise

# After two steps. Only some processors round a x + y once instead of twice. The most seen was 5.
ULPS = 8


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


def assert_close(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    far = {name: apart for name in found if (apart := ulps(found[name], expected[name])) > ULPS}
    assert far == {}


def ulps(found: Tensor, expected: Tensor) -> float:
    """The largest difference, in units in the last place of the largest entry, or of 1 if that is larger."""
    scale = max(1.0, expected.abs().max().item())
    difference = (found.double() - expected.double()).abs().max().item()
    return difference / (torch.finfo(found.dtype).eps * scale)


def test_a_unit_in_the_last_place_is_seen() -> None:
    one = torch.tensor([0.5, 1.0])
    assert ulps(one, one) == 0
    assert ulps(torch.nextafter(one, torch.tensor(2.0)), one) == 1


@pytest.mark.parametrize("most", ["avx2", "avx512"])
def test_instructions_do_not_change_the_numbers(
    native: Library, baseline: dict[str, Tensor], tmp_path: Path, most: str
) -> None:
    variant, found = results(native.path, most, tmp_path)
    if variant != most:
        pytest.skip(f"this processor has no {most}")
    assert_close(found, baseline)


def test_the_optimizer_of_the_compiler_does_not_change_the_numbers(
    baseline: dict[str, Tensor], tmp_path: Path
) -> None:
    library = compile_library(tmp_path / "slow.so", ["-O0"])
    assert_close(results(library, "avx512", tmp_path)[1], baseline)
