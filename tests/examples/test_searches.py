"""The examples of a search, very small."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def found(output):
    """The numbers of the best choice, and the accuracies of its validation and test, in percent."""
    best = re.search(r"^best: lr=(\S+), radius=(\S+), friction=(\S+)$", output, re.MULTILINE)
    accuracies = re.search(r"^accuracy: validation (\S+)%, test (\S+)%$", output, re.MULTILINE)
    return [float(each) for match in (best, accuracies) for each in match.groups()]


def test_optuna_finds_a_choice_that_learns(capsys):
    pytest.importorskip("optuna")
    from examples import optuna_search

    optuna_search.main(["--trials", "3", "--epochs", "6"])
    output = capsys.readouterr().out
    assert "3 trials" in output
    lr, radius, friction, validation, test = found(output)
    assert 0.03 <= lr <= 1
    assert 1.5 <= radius <= 20
    assert 0.1 <= friction <= 10
    assert 80 < validation < 100
    assert abs(validation - test) < 5


def test_optuna_prunes_what_falls_behind():
    optuna = pytest.importorskip("optuna")
    from examples import optuna_search

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna_search.search(trials=12, epochs=6)
    states = [trial.state.name for trial in study.trials]
    assert {"COMPLETE", "PRUNED"} == set(states)


@pytest.mark.slow  # Ray starts processes that import torch: half a minute on two idle cores
def test_ray_tune_finds_a_choice_that_learns():
    pytest.importorskip("ray")
    command = [sys.executable, "-m", "examples.ray_tune_search", "--trials", "2", "--epochs", "6"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "2 trials, 0 of them failed" in done.stdout
    *_, validation, test = found(done.stdout)
    assert 80 < validation < 100
    assert abs(validation - test) < 5
