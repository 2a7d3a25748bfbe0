"""Numbers on the pages are what the stored results say, and the scripts that measure them run."""

import importlib
import json
import re
from pathlib import Path

import pytest

from docs.measured import sheet

ROOT = Path(__file__).parents[2]
CHOOSE = ROOT / "docs" / "choose.md"
NAMES = sorted(path.stem for path in (ROOT / "docs" / "measured" / "results").glob("*.json"))
BLOCKS = re.compile(r"<!-- measured: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)


@pytest.mark.parametrize("page", sheet.PAGES, ids=lambda page: page.name)
def test_tables_are_what_the_stored_results_give(page):
    text = page.read_text(encoding="utf-8")
    assert text == sheet.rendered(text), f"run python -m docs.measured.NAME for a table of {page.name}"


def test_a_changed_number_is_noticed():
    text = CHOOSE.read_text(encoding="utf-8")
    _, table = BLOCKS.findall(text)[0]
    changed = re.sub(r"\d\.\d ±", "0.0 ±", table, count=1)
    assert changed != table
    assert sheet.rendered(text.replace(table, changed)) == text


def test_every_stored_result_is_on_a_page():
    shown = {name for page in sheet.PAGES for name, _ in BLOCKS.findall(page.read_text(encoding="utf-8"))}
    assert shown == set(NAMES)


def test_accuracies_stand_in_tables_alone():
    prose = BLOCKS.sub("", CHOOSE.read_text(encoding="utf-8"))
    assert not re.findall(r"\d+\.\d+ ?±|\d+\.\d+ ?%", prose)


@pytest.mark.parametrize("name", NAMES)
def test_scripts_run_small(name):
    script = importlib.import_module(f"docs.measured.{name}")
    numbers = script.measure(True)
    full, small = sheet.stored(name), json.loads(json.dumps(numbers))
    assert full.keys() - small.keys() == {"about"}
    assert full["settings"].keys() == small["settings"].keys()
    lines = [line.split(" | ") for line in script.table(numbers).splitlines()]
    assert lines[0][0] == script.table(full).partition(" | ")[0]
    assert len(lines) > 2
    assert len(lines[1]) == len(lines[0])


def test_results_say_what_they_depend_on():
    for name in NAMES:
        about = sheet.stored(name)["about"]
        assert about["command"] == f"python -m docs.measured.{name}"
        assert {"python", "torch", "scikit-learn", "colangevin", "seconds"} <= about.keys()


def test_storing_and_reading_gives_the_same_table(tmp_path, monkeypatch):
    monkeypatch.setattr(sheet, "_FOLDER", tmp_path)
    script = importlib.import_module("docs.measured.friction")
    numbers = {"settings": {"lr": 0.3}, "rows": {"1": [90.123456789, 91.0]}}
    sheet.store("friction", numbers, 1.6)
    stored = sheet.stored("friction")
    assert stored["rows"] == {"1": [90.1235, 91.0]}
    assert stored["about"]["seconds"] == 2
    assert script.table(stored) == script.table(numbers)
    assert "| 1 | 0.74 | 90.6 ± 0.6 |" in script.table(stored)
