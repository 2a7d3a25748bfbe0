"""Stored measurements, and the tables that the pages show of them.

A page has ``<!-- measured: NAME -->`` and ``<!-- end -->``. What stands between them is written from
``results/NAME.json`` by the function ``table`` of ``docs.measured.NAME``.
"""

import argparse
import importlib
import json
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import colangevin as cl

__all__ = ["PAGES", "main", "markdown", "rendered", "spread", "store", "stored"]

Numbers = dict[str, Any]

_FOLDER = Path(__file__).parent / "results"
_ROOT = Path(__file__).parents[2]
#: pages that may show a table
PAGES = (
    _ROOT / "docs" / "choose.md",
    _ROOT / "docs" / "many-devices.md",
    _ROOT / "docs" / "tutorials" / "own-constraint.md",
    _ROOT / "README.md",
)
_BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main(name: str, measure: Callable[[bool], Numbers], table: Callable[[Numbers], str]) -> None:
    """Measure, print the table, store the numbers and write them into the pages.

    Args:
        name: of the script.
        measure: takes whether to be quick, returns settings and numbers.
        table: of what ``measure`` returned, in Markdown.
    """
    parser = argparse.ArgumentParser(prog=f"python -m docs.measured.{name}")
    parser.add_argument("--quick", action="store_true", help="run very small, and store nothing")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    began = time.perf_counter()
    numbers = measure(quick)
    print(table(numbers))
    if not quick:
        store(name, numbers, time.perf_counter() - began)
        for page in PAGES:
            page.write_text(rendered(page.read_text(encoding="utf-8"), name), encoding="utf-8")


def store(name: str, numbers: Numbers, seconds: float) -> None:
    """Write numbers, and what they depend on, as JSON.

    Args:
        name: of the script.
        numbers: what it measured.
        seconds: how long that took.
    """
    about = {
        "command": f"python -m docs.measured.{name}",
        "seconds": round(seconds),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "colangevin": cl.__version__,
        "torch": torch.__version__,
        "scikit-learn": metadata.version("scikit-learn"),
    }
    _FOLDER.mkdir(exist_ok=True)
    text = json.dumps({"about": about, **_rounded(numbers)}, indent=1, ensure_ascii=False)
    # numbers of a list on one line
    text = re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda found: "[" + " ".join(found[1].split()) + "]", text)
    (_FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def stored(name: str) -> Numbers:
    """What a script has stored."""
    numbers: Numbers = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return numbers


def rendered(text: str, only: str | None = None) -> str:
    """A page with the tables that the stored numbers give.

    Args:
        text: the page.
        only: the name of the script whose table to write; None writes all.

    Returns:
        The page.
    """

    def block(found: re.Match[str]) -> str:
        begin, name, end = found.groups()
        if only not in (None, name):
            return found[0]
        script = importlib.import_module(f"docs.measured.{name}")
        return f"{begin}{script.table(stored(name))}\n{end}"

    return _BLOCK.sub(block, text)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose other columns are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(values: Sequence[float], form: str = ".1f") -> str:
    """Mean and standard deviation."""
    if len(values) == 1:
        return format(values[0], form)
    return f"{statistics.mean(values):{form}} ± {statistics.stdev(values):{form}}"


def _rounded(value: Any) -> Any:
    """Numbers to 6 digits: more is rounding of the machine."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {str(key): _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value
