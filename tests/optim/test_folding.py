"""Names that differ in numbers only become one."""

import pytest

from colangevin.optim.folding import fold, glob, pattern
from colangevin.optim.plain_table import WIDTH, lines_of, wrapped


def numbered(*numbers: int) -> list[str]:
    return [f"layers.{number}.weight" for number in numbers]


@pytest.mark.parametrize(
    ("numbers", "called"),
    [
        ([7], "layers.7.weight"),
        ([0, 1, 2], "layers.{0..2}.weight"),
        ([11, 9, 10], "layers.{9..11}.weight"),
        ([0, 2, 4], "layers.{0,2,4}.weight"),
        ([0, 2, 4, 6], "layers.{0,2,..,6}.weight"),
    ],
)
def test_a_pattern_says_which_numbers(numbers: list[int], called: str) -> None:
    assert pattern(numbered(*numbers)) == called


def test_a_pattern_of_two_numbers() -> None:
    names = [f"{i}.blocks.{j}.weight" for i in range(2) for j in range(3)]
    assert pattern(names) == "{0..1}.blocks.{0..2}.weight"
    assert glob(names) == "*.blocks.*.weight"


def test_two_alike_take_two_lines() -> None:
    assert fold(numbered(0, 1), [0, 0]) == [[0], [1]]


def test_other_kinds_and_other_words_stay_apart() -> None:
    names = [*numbered(0, 1, 2, 3), "layers.0.bias", "layers.1.bias", "layers.2.bias", "layers.norm.weight"]
    assert fold(names, [0, 1, 0, 0, 0, 0, 0, 0]) == [[0, 2, 3], [1], [4, 5, 6], [7]]


def test_a_wide_table_is_cut() -> None:
    rows = [["name", "constraint", "n"], ["a." * 60 + "weight", "Implicit(" + "g" * 80 + ")", "12"]]
    header, line = lines_of(rows, right="<<>")
    assert len(line) == WIDTH == len(header)
    name, constraint, number = line.split()
    assert name.startswith("...")
    assert name.endswith("a.weight")
    assert constraint.startswith("Implicit(")
    assert constraint.endswith("g)")
    assert number == "12"


def test_a_note_is_wrapped() -> None:
    lines = wrapped("words " * 40 + "x" * 150)
    assert max(map(len, lines)) <= WIDTH
    assert all(line.startswith("  ") for line in lines[1:])
