"""The folders of the experiments point one way, and no two files or classes share a name."""

import ast
import itertools
import re
from collections import Counter
from pathlib import Path

from colangevin import experiments

ROOT = Path(experiments.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
PACKAGE = "colangevin.experiments."
# What the files of each folder may import, besides each other and the library.
BELOW = {
    "catalogue": set(),
    "data": set(),
    "models": set(),
    "storage": {"catalogue"},
    "judging": {"catalogue"},
    "training": {"catalogue", "data", "models", "storage", "judging"},
    "sweeps": {"catalogue", "storage", "training"},
    "report": {"catalogue", "storage", "judging"},
}


def imported(path):
    """The folders whose files a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name.removeprefix(PACKAGE).split(".")[0] for name in names if name.startswith(PACKAGE))


def test_every_folder_is_known():
    assert {path.parent.name for path in FILES if path.parent != ROOT} == set(BELOW)


def test_folders_import_only_those_below_them():
    for path in FILES:
        if path.parent != ROOT:
            assert set(imported(path)) <= BELOW[path.parent.name] | {path.parent.name}, path


def test_folders_are_in_an_order_without_cycles():
    for (upper, below), (lower, _) in itertools.combinations(reversed(BELOW.items()), 2):
        assert upper not in BELOW[lower]
        assert upper not in below


def test_no_two_files_have_names_that_differ_in_a_digit_or_an_underscore():
    plain = Counter(re.sub(r"[\d_]", "", path.stem) for path in FILES if path.name != "__init__.py")
    assert {name for name, count in plain.items() if count > 1} == set()


def test_no_two_classes_share_a_name():
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in FILES)
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} == set()
