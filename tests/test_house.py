"""The house: packages point one way, files stay small, and the core of a constraint stays narrow."""

import ast
import inspect
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import colangevin
from colangevin.constraints import Constraint, Manifold

SOURCE = Path(colangevin.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
ROOT = Path(__file__).parents[1]

# What each of these may import of the library besides itself.
ALLOWED = {
    "constraints": {"draws", "errors", "sharded", "surroundings"},
    "dynamics": {"constraints", "errors"},
    "kernels": {"noise"},
    "native": set(),
    "step": {"constraints", "dynamics", "kernels", "native", "errors", "noise", "surroundings"},
    "sharding": {"constraints", "dynamics", "step", "errors", "noise", "sharded"},
    "optim": {
        *("constraints", "dynamics", "step", "sharding"),
        *("draws", "errors", "independence", "noise", "sharded", "surroundings"),
    },
    "integrations": {"constraints", "diagnostics", "errors", "extras", "optim", "sampling", "schedules"},
}
# Who may import the steps of DTensors. torch's own modules of these take as long to import as all of the
# library, so it is done inside of functions, where there is a DTensor.
OF_SHARDING = {"optim", "sharded"}
# What needs an extra to be imported, so nothing of the library may import it.
ON_TOP = ("integrations",)


def parts(path: Path) -> tuple[str, ...]:
    """The module's name below ``colangevin``."""
    names = path.relative_to(SOURCE).with_suffix("").parts
    return names[:-1] if names[-1] == "__init__" else names


def component(names: tuple[str, ...]) -> str:
    """What is kept apart: a package or a module of the library; of the experiments, each folder."""
    return ".".join(names[: 2 if names[0] == "experiments" else 1])


def imports(path: Path, *, lazily: bool = True) -> Iterator[tuple[str, ...]]:
    """Modules of the library that a file imports, inside of functions too or not; not for annotations."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(node)
        for branch in ast.walk(tree)
        if (isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING")
        or (isinstance(branch, ast.FunctionDef) and not lazily)
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        modules: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            # of "from package import name" the name may be a module
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        for module in modules:
            names = tuple(module.split("."))
            if names[0] == "colangevin" and len(names) > 1:
                yield names[1:]


def graph() -> dict[str, set[str]]:
    """Which component imports which."""
    found: dict[str, set[str]] = {}
    known = {component(parts(path)) for path in FILES if parts(path)}
    for path in FILES:
        if not parts(path):
            continue  # the package itself names everything
        here = component(parts(path))
        there = {component(names) for names in imports(path)} & known
        found.setdefault(here, set()).update(there - {here})
    return found


def test_no_package_imports_in_a_circle() -> None:
    left = graph()
    # the one way up: constraints hold DTensors through sharded.py, which asks the package for their parts
    left["sharded"].remove("sharding")
    while left:
        leaves = {name for name, others in left.items() if not others & left.keys()}
        assert leaves, f"a circle among {sorted(left)}"
        left = {name: others for name, others in left.items() if name not in leaves}


@pytest.mark.parametrize("package", ALLOWED)
def test_packages_point_one_way(package: str) -> None:
    assert graph()[package] <= ALLOWED[package]


def test_sharding_is_imported_where_there_is_a_dtensor() -> None:
    found = {name for name, others in graph().items() if "sharding" in others}
    assert found == OF_SHARDING
    for path in FILES:
        if component(parts(path) or ("",)) in OF_SHARDING:
            at_once = [names for names in imports(path, lazily=False) if names[0] == "sharding"]
            assert at_once == [], path


@pytest.mark.parametrize("package", ON_TOP)
def test_nobody_imports_what_is_on_top(package: str) -> None:
    assert [name for name, others in graph().items() if package in others] == []


def test_the_test_sees_an_import_that_points_back(tmp_path: Path) -> None:
    file = tmp_path / "file.py"
    file.write_text("def f():\n    from colangevin.optim import CoLud\n")
    assert list(imports(file)) == [("optim", "CoLud")]
    assert list(imports(file, lazily=False)) == []


def lengths(files: Iterable[Path]) -> dict[str, int]:
    """The number of lines of each file."""
    return {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files}


def test_files_are_short() -> None:
    lines = lengths(FILES)
    assert {path: n for path, n in lines.items() if n > 400} == {}
    assert statistics.median(lines.values()) <= 130


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "examples", "docs"])
def test_files_around_the_source_are_short(folder: str) -> None:
    lines = lengths((ROOT / folder).rglob("*.py"))
    assert {path: n for path, n in lines.items() if n > 400} == {}


def test_no_names_look_alike() -> None:
    """No two modules whose names differ by a digit or an underscore only."""
    seen: dict[str, Path] = {}
    for path in FILES:
        if path.stem == "__init__":
            continue
        plain = "".join(letter for letter in path.stem if letter.isalpha())
        other = seen.setdefault(plain, path)
        assert other.stem == path.stem, f"{other} and {path}"


def test_the_core_of_a_constraint_is_narrow() -> None:
    required = Manifold.__abstractmethods__ | Constraint.__abstractmethods__
    assert len(required) <= 9
    for name in required:
        assert inspect.getdoc(getattr(Manifold, name)), name


KINDS = {"Circle", "Sphere", "Orthogonal", "Implicit"}


def test_nobody_outside_asks_which_constraint_it_is() -> None:
    for path in FILES:
        if parts(path)[:1] == ("constraints",):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                asked = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                assert not asked & KINDS, f"{path}:{node.lineno}"
