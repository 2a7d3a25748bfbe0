"""The comparison of samplers: its targets' exact averages, its rows, its table."""

import math

import pytest
import torch

from benchmarks.sampling import __main__ as runner
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
    monkeypatch.setattr(runner, "SAMPLERS", [*ours, type(ours[0])("other", "broken", 1, broken)])
    monkeypatch.setattr(runner, "TARGETS", TARGETS[:2])
    runner.main(["--seconds", "0.2", "--out", str(tmp_path), "--commit", "abc"])
    text = runner.render(tmp_path)
    assert text.count("CoLud, BAOAB") == 4
    assert "| SO(2), 3 cos φ: 0.8100 | colangevin" in text
    assert "|  | other : broken | 1 | failed: RuntimeError: does not work here" in text
    assert "commit abc" in text
    assert "does not work here" in capsys.readouterr().out


def test_without_results_the_table_says_so(tmp_path):
    assert runner.render(tmp_path) == "No results are stored."


def test_the_readme_shows_the_stored_results():
    assert runner.BEGIN in runner._PAGE.read_text()
    assert runner._PAGE.read_text() == runner.page(), "run python -m benchmarks.sampling"
