"""The comparison with another version: its processes and its tables."""

import pytest
import torch

from benchmarks.against import __main__ as command
from benchmarks.against import demo, sampling, steps
from benchmarks.against.version import HERE, version
from benchmarks.sampling.samplers import stepping
from benchmarks.sampling.targets import TARGETS
from benchmarks.timing import VARIANTS
from benchmarks.workloads import Workload


def test_a_version_answers_from_its_own_process():
    with version(HERE, "benchmarks.against.demo") as ask:
        ask("begin", "2 hidden layers", 1)
        first = ask("measure")
        assert ask("advance") > 0
        assert ask("measure") != first


def test_a_version_that_ends_is_named(tmp_path):
    (tmp_path / "src").mkdir()
    with (
        pytest.raises(RuntimeError, match=r"no_such_module with the library of .* ended without an answer"),
        version(tmp_path, "no_such_module") as ask,
    ):
        ask("anything")


def test_a_folder_without_the_library_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        command.main([str(tmp_path)])
    assert f"{tmp_path} has no src/colangevin; give a checkout" in capsys.readouterr().err


def test_steps_of_two_versions_are_compared_by_their_medians(capsys, monkeypatch):
    monkeypatch.setitem(steps.ROWS, "cpu", [(Workload("small", ((2, 2),)), ("circle",))])
    steps.compare(lambda *about: [4.0], lambda *about: [1.0], "cpu", 0.01)
    head, line = capsys.readouterr().out.splitlines()
    assert head.split()[-3:] == ["other", "this", "this/other"]
    assert line.split() == ["small", "circle", "eager", "4.000", "1.000", "0.250"]


def test_a_turn_takes_steps_of_the_method_that_is_asked_for(monkeypatch):
    monkeypatch.setitem(steps.ROWS, "cpu", [(Workload("small", ((2, 2),)), ("circle", "sphere"))])
    (variant,) = VARIANTS["cpu"]
    server = steps._Steps()
    for method in ("circle", "circle", "sphere"):
        times = server.turn("cpu", 0, method, variant.name)
        assert len(times) == steps._TURN
        assert min(times) > 0


def test_the_demo_is_compared_by_time_and_results(capsys):
    asked = []

    def trained(seconds, value):
        answers = {"begin": None, "advance": seconds, "measure": [[[value]]] * len(demo.MEASURED)}
        return lambda *question: asked.append(question) or answers[question[0]]

    demo.compare(trained(2.0, 1.0), trained(1.0, 1.5), 3)
    one, other = [question for question in asked if question[0] == "begin"]
    assert one == other  # both versions train the same network
    *_, last, middle = capsys.readouterr().out.splitlines()
    assert middle == "median epoch: 2000 ms, 1000 ms, 0.500"
    assert last.split()[:4] == ["3", "6.0", "3.0", "0.500"]
    assert "train_loss 5e-01" in last


def test_samplers_are_compared_by_effective_samples(capsys, monkeypatch):
    def begin(target, chains):
        source = torch.Generator().manual_seed(0)
        return lambda: None, lambda: torch.randn(chains, generator=source)

    runs = [(TARGETS[1], stepping("colangevin", "independent", 4, begin))]
    monkeypatch.setattr(sampling, "RUNS", runs)
    served = sampling._Sampling()
    found = served.turn(0, 0.05)
    assert served.turn(0, 0.05)["draws"] > found["draws"]
    slower = {**found, "ess": found["ess"] / 4, "draws": found["draws"] / 2}
    sampling.compare(lambda *about: slower, lambda *about: found, "S²*, 4", 1.0)
    assert capsys.readouterr().out.splitlines()[-1].split()[-2:] == ["2.00", "4.00"]
    sampling.compare(served.turn, served.turn, "SO(3)*", 1.0)
    assert len(capsys.readouterr().out.splitlines()) == 1
