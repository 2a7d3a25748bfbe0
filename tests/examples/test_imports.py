"""An example shows what a user can do: it imports colangevin, and no module inside of it."""

import ast
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_examples_stand_on_the_public_interface():
    for path in EXAMPLES.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.startswith("colangevin.")], path
