"""Code in the README and in the documentation runs as it stands."""

import os
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    # what tutorials and the page of the command line do is executed when the site is built
    if "```python\n" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_on_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(os.fspath(ROOT))
    parsers = [PythonCodeBlockParser(), SkipParser()]
    examples = list(Sybil(parsers=parsers, path=os.fspath(ROOT)).parse(page).examples())
    assert examples
    for example in examples:
        example.evaluate()
