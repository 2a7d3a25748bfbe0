"""The comparison of samplers: its targets' exact averages, its rows, its table."""

import math

import pytest
import torch

from benchmarks.sampling import __main__ as runner
from benchmarks.sampling import digits
from benchmarks.sampling.samplers import SAMPLERS
from benchmarks.sampling.targets import TARGETS
from tests.statistical.matrix_fisher import rotation_moments


def test_exact_averages():
    circle, sphere, rotations = TARGETS
    assert circle.exact == pytest.approx(0.8100, abs=5e-5)
    assert sphere.exact == pytest.approx(1 / math.tanh(2) - 0.5)
    assert rotations.exact == pytest.approx(sum(rotation_moments((2.0, 1.5, 0.5))) / 3)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_start_is_on_the_manifold_and_observed(target):
    Q = target.start
    assert torch.equal(Q.mT @ Q, torch.eye(Q.shape[1], dtype=Q.dtype))
    assert float(target.observe(Q)) == 1


def test_every_sampler_has_a_row_and_one_that_fails_is_said(tmp_path, capsys, monkeypatch):
    def broken(target, chains, seconds):
        raise RuntimeError("does not work here")

    ours = [sampler for sampler in SAMPLERS if sampler.library == "colangevin"]
    samplers = [*ours, type(ours[0])("other", "broken", 1, broken)]
    monkeypatch.setattr(runner, "RUNS", [(target, each) for target in TARGETS[:2] for each in samplers])
    runner.main(["--seconds", "0.2", "--out", str(tmp_path), "--commit", "abc"])
    text = runner.render(tmp_path)
    assert text.count("CoLud, BAOAB") == 4
    assert "| SO(2), 3 cos φ: 0.8100 | colangevin" in text
    assert "|  | other : broken | 1 | failed: RuntimeError: does not work here" in text
    assert "commit abc" in text
    assert "does not work here" in capsys.readouterr().out


@pytest.mark.parametrize("sampler", digits.SAMPLERS, ids=lambda sampler: f"{sampler.chains} chains")
def test_chains_of_the_digits_settle_before_they_are_observed(sampler, monkeypatch):
    monkeypatch.setattr(digits, "_DESCENT", 200)
    monkeypatch.setattr(digits, "_SETTLING", 20)
    step, observe = sampler.begin(digits.POSTERIOR, sampler.chains)
    before = observe()
    step()
    assert before.shape == (sampler.chains,)
    assert not torch.equal(before, observe())
    assert float(before.max()) < 1.5  # of ten classes, guessed at log 10 = 2.3


def test_an_average_that_nobody_knows_is_neither_right_nor_wrong(tmp_path, monkeypatch):
    monkeypatch.setattr(digits, "_DESCENT", 20)
    monkeypatch.setattr(digits, "_SETTLING", 20)
    monkeypatch.setattr(runner, "RUNS", [(digits.POSTERIOR, digits.SAMPLERS[0])])
    runner.main(["--seconds", "0.2", "--out", str(tmp_path), "--commit", "abc"])
    (line,) = [line for line in runner.render(tmp_path).splitlines() if "digits" in line]
    assert line.startswith(f"| {digits.POSTERIOR.name} | colangevin")
    assert "| unknown |" in line


def test_without_results_the_table_says_so(tmp_path):
    assert runner.render(tmp_path) == "No results are stored."


def test_the_readme_shows_the_stored_results():
    assert runner.BEGIN in runner._PAGE.read_text()
    assert runner._PAGE.read_text() == runner.page(), "run python -m benchmarks.sampling"
