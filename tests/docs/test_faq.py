"""The messages that the FAQ quotes are those that the library has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import colangevin

SOURCE = Path(colangevin.__file__).parent
FAQ = Path(__file__).parents[2] / "docs" / "faq.md"
MESSAGES = re.findall(r"^\*\*`(.+)`\*\*$", FAQ.read_text(encoding="utf-8"), re.MULTILINE)


def texts(tree: ast.AST) -> Iterator[str]:
    """Every string of the code, with … where an f-string has a value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.fixture(scope="module")
def source() -> list[str]:
    return [text for path in SOURCE.rglob("*.py") for text in texts(ast.parse(path.read_text("utf-8")))]


def occurs(message: str, source: list[str]) -> bool:
    """Whether the constant parts of a message stand in one string of the source, in this order."""
    pattern = re.compile(".*".join(map(re.escape, message.split("…"))))
    return any(pattern.search(text) for text in source)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_quoted_message_is_one_of_the_library(message: str, source: list[str]) -> None:
    assert occurs(message, source), "no string of the source has these words; correct docs/faq.md"


def test_a_message_that_is_gone_is_noticed(source: list[str]) -> None:
    assert len(MESSAGES) > 40
    assert not occurs("rule … fits no weight of …", source)
    assert not occurs("Choose radius >= …, entries exceed radius", source)
