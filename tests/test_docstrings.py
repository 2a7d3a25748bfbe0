"""Every public name says what it is for, in Markdown, with an example that runs.

Examples know ``torch``, ``nn`` (torch.nn) and ``cl`` (colangevin), as those of torch's own documentation do.
"""

import doctest
import inspect
import re
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import colangevin as cl

NAMES = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (cl, cl.constraints, cl.diagnostics, cl.schedules)
    for name in module.__all__
    if module is cl or name not in cl.__all__
}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Roles and directives of reStructuredText, which the site would print as they are.
FOREIGN = re.compile(r":\w+:`|^ *\.\. \w+::|::$", re.MULTILINE)


def examples(thing: Any, name: str) -> list[doctest.DocTest]:
    """The examples of a name, those of a class's methods included."""
    finder = doctest.DocTestFinder(recurse=not isinstance(thing, ModuleType))
    found = finder.find(thing, name, module=False, globs={"cl": cl, "nn": nn, "torch": torch})
    return [each for each in found if each.examples]


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_an_example_that_runs(name: str) -> None:
    found = examples(NAMES[name], name)
    assert any(each.name == name for each in found), f"{name} has no example"
    assert "\nExamples:\n" in inspect.cleandoc(NAMES[name].__doc__)
    printed: list[str] = []
    for each in found:
        outcome = doctest.DocTestRunner(optionflags=FLAGS).run(each, out=printed.append)
        assert outcome.failed == 0, "".join(printed)


def documented(thing: Any) -> list[Any]:
    """A name, and what of a class the reference shows besides."""
    if not inspect.isclass(thing):
        return [thing]
    members = [member for each, member in vars(thing).items() if not each.startswith("_")]
    return [thing, *(each for each in members if callable(each) or isinstance(each, property))]


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_are_markdown(name: str) -> None:
    for each in documented(NAMES[name]):
        text = inspect.cleandoc(each.__doc__ or "")
        assert FOREIGN.search(text) is None, f"{each}: {FOREIGN.findall(text)}"


@pytest.mark.parametrize("text", [":math:`h`", "a\n\n.. math::\n    h", "like this::\n\n    code"])
def test_the_test_sees_other_markup(text: str) -> None:
    assert FOREIGN.search(text)


def test_the_test_sees_an_example_that_fails() -> None:
    def wrong() -> None:
        """Wrong.

        Examples:
            >>> 1 + 1
            3
        """

    (found,) = examples(wrong, "wrong")
    assert doctest.DocTestRunner(optionflags=FLAGS).run(found, out=lambda text: None).failed == 1
