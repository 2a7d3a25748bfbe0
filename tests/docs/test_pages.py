"""What the pages say: written by their scripts, and about every public name."""

import re
from pathlib import Path

import pytest

import colangevin
from colangevin import constraints, diagnostics, schedules
from docs import findings, networks

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_the_table_of_findings_is_that_of_the_results():
    text = findings.PAGE.read_text(encoding="utf-8")
    table = text.partition(findings.BEGIN)[2].partition(findings.END)[0]
    assert table.strip() == findings.render().strip(), "run python docs/findings.py"


def test_the_tables_of_decoders_are_those_of_the_results():
    text = networks.PAGE.read_text(encoding="utf-8")
    tables = text.partition(networks.BEGIN)[2].partition(networks.END)[0]
    assert tables.strip() == networks.render().strip(), "run python docs/networks.py"


def described() -> set[str]:
    """The names that the pages of the reference take from docstrings."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md"))
    return set(re.findall(r"^::: \S*?(\w+)$", text, re.MULTILINE))


@pytest.mark.parametrize("name", sorted({*colangevin.__all__, *constraints.__all__}))
def test_every_public_name_is_on_a_page(name):
    assert name in described()


@pytest.mark.parametrize("module", [diagnostics, schedules])
def test_every_public_name_of_a_module_is_exported_by_it(module):
    """A page of a module shows what ``__all__`` names."""
    assert module.__name__.rpartition(".")[2] in described()
    assert all(getattr(module, name).__doc__ for name in module.__all__)
