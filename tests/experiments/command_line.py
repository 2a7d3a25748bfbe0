"""The command line in a process of its own, with a tiny experiment for fig4."""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]

# A checkpoint after every epoch and a coarse grid; a file that is opened in the encoding of the locale fails.
TINY = """
import sys, warnings
warnings.filterwarnings("error", category=EncodingWarning, module="colangevin")
from colangevin.__main__ import main
from colangevin.experiments import cli
from colangevin.experiments.catalogue import index
from colangevin.experiments.judging import plane
from colangevin.experiments.training import runner
from tests.experiments.tiny import experiment
index.EXPERIMENTS = cli.EXPERIMENTS = (experiment(parts=2, epochs=12, points=4),)
runner.CHECKPOINT_SECONDS = 0.0
plane.GRID, plane.PICTURE = 60, 12
main()
"""


def start(*words, script=TINY, **options):
    """A process at work; what it says, errors too, can be had from its output."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), *sys.path])
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8", **options}
    settings["env"] = {**os.environ, "PYTHONPATH": path, **settings.get("env", {})}
    encoded = [word if isinstance(word, bytes) else str(word) for word in words]
    command = [sys.executable, "-X", "warn_default_encoding", "-c", script, *encoded]
    return subprocess.Popen(command, cwd=ROOT, **settings)


def finish(process):
    """Its exit status and what it said."""
    text, _ = process.communicate(timeout=300)
    return process.returncode, text


def contents(folder):
    """The files that depend on the settings alone."""
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.name != "run.json"}


def wait_for(arrived, process):
    """Wait until something has come true, but not longer than the process lives."""
    while not arrived():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
