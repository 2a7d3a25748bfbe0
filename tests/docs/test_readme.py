"""The README's first example prints what the README says."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PROGRAM = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
OPTIMIZER = re.search(r"^optimizer = (.*)$", PROGRAM, re.MULTILINE)[1]
PRINTED = re.findall(r"^\| `(.*)` \| (\d+) to (\d+) % \|$", README, re.MULTILINE)
# Processors round matrix products differently, and training makes the difference grow: some of the 450 test
# digits may then be decided otherwise than in the runs that the README counts.
FEW = 1.5


def test_the_table_has_the_line_of_the_program_and_its_peers():
    assert [line.partition("(")[0] for line, _, _ in PRINTED] == [
        "torch.optim.SGD",
        "torch.optim.AdamW",
        "cl.ConstrainedSGD",
    ]
    assert PRINTED[-1][0] == OPTIMIZER


@pytest.mark.parametrize(("line", "least", "most"), PRINTED)
def test_the_first_example_prints_what_the_table_says(line, least, most, capsys):
    exec(PROGRAM.replace(OPTIMIZER, line), {})
    percent = float(capsys.readouterr().out.strip().rstrip("%"))
    assert int(least) - FEW <= percent <= int(most) + FEW
