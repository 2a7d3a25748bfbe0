"""Rules of every kind type-check, also when they are assigned to a variable first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CODE = """\
from collections.abc import Mapping
from typing import Any

from torch import nn

import colangevin as cl

model = nn.Linear(3, 3)
replicas = cl.Replicas(lambda: nn.Linear(3, 3), 2)

names = {"weight": cl.Circle(1.0)}
classes = {nn.Linear: cl.Orthogonal()}
mixed = {"weight": cl.Circle(1.0), nn.Linear: cl.Orthogonal()}
left_free = {"bias": None, "weight": cl.Circle(1.0)}
mixed_left_free = {"bias": None, nn.Linear: cl.Orthogonal(), "weight": cl.Circle(1.0)}
# what other checkers take the literals for
union: dict[str | type[nn.Linear], cl.Circle | cl.Orthogonal] = {nn.Linear: cl.Orthogonal()}
anything: Mapping[object, cl.Sphere] = {"weight": cl.Sphere(2.0)}

cl.constrain(model, names)
cl.constrain(model, classes)
cl.constrain(model, mixed)
cl.constrain(model, left_free)
cl.constrain(model, mixed_left_free)
cl.constrain(model, union)
cl.constrain(model, anything)
cl.constrain(model, {"bias": None, nn.Linear: cl.Orthogonal(), "weight": cl.Circle(1.0)})
replicas.constrain(mixed_left_free)

groups: list[dict[str, Any]] = cl.constrain(model, mixed)
optimizer = cl.CoLud(cl.constrain(model, mixed), 0.1, friction=1.0)
same: nn.Linear = cl.project_(model, optimizer.param_groups)
again: nn.Linear = cl.project_(same, groups)
cl.constrain(model, {"weight": 0.5})
"""


def test_rules_type_check(tmp_path: Path) -> None:
    """It takes seconds where mypy has checked the library before, as in ``make test``, else a minute."""
    pytest.importorskip("mypy")
    file = tmp_path / "rules.py"
    file.write_text(CODE)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--no-color-output", str(file)]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    last = len(CODE.splitlines())
    assert found.stderr == ""
    # what mypy has in its cache names the file of an earlier run
    assert [line.partition("rules.py:")[2] for line in found.stdout.splitlines()] == [
        f'{last}: error: Dict entry 0 has incompatible type "str": "float"; '
        'expected "Any": "Constraint | None"  [dict-item]'
    ]
