"""A terminal and a locale that know ASCII alone: nothing fails, and files are UTF-8 all the same."""

import json
import os
from pathlib import Path

import pytest

from tests.experiments.command_line import finish, start

# Without the last two Python takes UTF-8 whatever the locale says.
ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
CHECK = """
import locale, sys
assert locale.getencoding().upper() in ("ANSI_X3.4-1968", "US-ASCII", "ASCII")
assert sys.stdout.encoding == "ascii", sys.stdout.encoding
"""
REAL = CHECK + "from colangevin.__main__ import main\nmain()\n"


def test_the_list_fits_the_terminal():
    wide = {"COLUMNS": "200", "PYTHONIOENCODING": "ascii:strict"}
    status, text = finish(start("list", script=REAL, env={**ASCII, **wide}))
    assert status == 0, text
    assert "5 ? 10 runs" in text


@pytest.mark.slow
def test_help_fits_the_terminal():
    status, text = finish(start("run", "--help", script=REAL, env=ASCII))
    assert status == 0, text
    assert "SIGTERM and SIGHUP save" in " ".join(text.split())


def test_run_resume_and_report_write_utf_8(tmp_path):
    out = os.fsencode(tmp_path) + "/ré τ ".encode() + b"\xff"  # the last byte is no text in any locale
    words = ("--runs", 1, "--epochs", 2, "--device", "cpu", "--out", out)
    for command in (("run", "fig4", *words), ("run", "fig4", *words, "--resume"), ("report", out)):
        status, text = finish(start(*command, env=ASCII))
        assert status == 0, text
        assert text.isascii()
    folder = Path(os.fsdecode(out))
    run = json.loads((folder / "four-turn" / "run.json").read_text(encoding="utf-8"))
    assert run["experiment"]["parts"][0]["methods"][4]["name"] == "o-CoLod τ"
    assert "ré τ \ufffd" in run["command"]
    page, tables = ((folder / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    assert "o-CoLod τ" in page
    assert "o-CoLod τ" in tables
    assert "ré τ \ufffd</code>" in page
