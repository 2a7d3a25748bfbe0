"""The newest record as numbers, and records written to TensorBoard and other writers as they are made."""

import math
import warnings

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.diagnostics import Monitor, cotangency, kinetic_temperature, violation


class Notes:
    """A writer of one's own."""

    def __init__(self):
        self.lines = []

    def add_scalar(self, tag, value, step):
        self.lines.append((tag, value, step))


def run(steps=3, temperature=0.1, **options):
    """A monitored run of a constrained and a free parameter; the next step is due."""
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    groups = cl.constrain(model, {"weight": cl.Orthogonal()})
    opt = cl.CoLud(groups, 0.1, friction=1.0, temperature=temperature, seed=0)
    monitor = Monitor(opt, **options)
    go_on(model, opt, monitor, steps)
    return model, opt, monitor


def go_on(model, opt, monitor, steps, **scalars):
    for step in range(steps):
        opt.zero_grad()
        model(torch.eye(3)).square().sum().backward()
        monitor.record(loss=float(step), **scalars)
        opt.step()


GROUP = ["temperature", "kinetic", "violation", "cotangency"]
NAMES = ["loss", *(f"{name}[0]" for name in [*GROUP, "iterations", "fallbacks"]), *(f"{n}[1]" for n in GROUP)]


def test_the_newest_record_is_what_the_measures_find():
    _, opt, monitor = run()
    monitor.record(loss=7)
    found = monitor.latest()
    assert list(found) == NAMES
    assert all(type(value) is float for value in found.values())
    assert found["loss"] == 7
    assert found["temperature[0]"] == found["temperature[1]"] == 0.1
    for name, measure in (
        ("violation", violation),
        ("cotangency", cotangency),
        ("kinetic", kinetic_temperature),
    ):
        now = measure(opt)
        assert found[f"{name}[0]"] == pytest.approx(now["weight"], rel=1e-12)
        assert found[f"{name}[1]"] == pytest.approx(now["bias"], rel=1e-12)
    assert found["kinetic[0]"] > 0


def test_before_the_first_record_there_is_nothing():
    assert run(steps=2, burn_in=2)[2].latest() == {}


def test_a_scalar_of_an_older_record_is_not_of_the_newest():
    model, opt, monitor = run()
    go_on(model, opt, monitor, 1, accuracy=0.5)
    assert monitor.latest()["accuracy"] == 0.5
    go_on(model, opt, monitor, 1)
    assert "accuracy" not in monitor.latest()


def test_solver_counts_are_those_since_the_record_before():
    model, opt, monitor = run(steps=1)
    assert "iterations[0]" not in monitor.latest()  # no step had been taken when the only record was made
    opt.param_groups[0]["lr"] = 0.4  # so long a step that one iteration is not enough
    go_on(model, opt, monitor, 1)
    first = monitor._solves.copy().of("Orthogonal")
    opt.param_groups[0]["lr"] = 1e-6  # so short a step that one iteration is enough
    go_on(model, opt, monitor, 2)
    assert monitor._solves.of("Orthogonal").calls == first.calls + 2
    assert monitor.latest()["iterations[0]"] < first.iterations / first.calls
    assert monitor.latest()["fallbacks[0]"] == 0
    every_third = Monitor(opt, every=3)
    go_on(model, opt, every_third, 6)
    assert every_third._solved[1].of("Orthogonal").calls - every_third._solved[0].of("Orthogonal").calls == 3


def test_replicas_give_their_average_and_their_worst():
    replicas = cl.Replicas(lambda: nn.Linear(2, 2), 3, seed=0)
    tau = torch.tensor([0.1, 0.2, 0.6])
    opt = cl.CoLod(replicas.constrain({"weight": cl.Circle(2.0)}), 0.1, temperature=tau, seed=0)
    with torch.no_grad():
        opt.param_groups[0]["params"][0][1].fill_(3.0)  # (9 - 4) / 4 off the circle
    monitor = Monitor(opt)
    monitor.record(loss=torch.tensor([1.0, 2.0, 6.0]))
    found = monitor.latest()
    assert found["loss"] == 3
    assert found["temperature[0]"] == pytest.approx(0.3)
    assert "kinetic[0]" not in found
    assert found["violation[0]"] == pytest.approx(1.25)


def test_own_writers_get_every_later_record_at_the_optimizer_s_steps():
    model, opt, monitor = run(steps=3, every=2)
    notes, others = Notes(), Notes()
    monitor.log_to(notes)
    go_on(model, opt, monitor, 2)  # calls 4 and 5, the first of which records
    assert notes.lines == [(name, value, 3) for name, value in monitor.latest().items()]
    monitor.log_to(others)
    go_on(model, opt, monitor, 1)
    assert [line for line in notes.lines if line[2] == 5] == others.lines
    assert dict(line[:2] for line in others.lines) == monitor.latest()


def test_a_resumed_run_goes_on_at_its_step():
    model, opt, _ = run(steps=4)
    other, other_opt, _ = run(steps=0)
    other.load_state_dict(model.state_dict())
    other_opt.load_state_dict(opt.state_dict())
    monitor, notes = Monitor(other_opt), Notes()
    monitor.log_to(notes)
    go_on(other, other_opt, monitor, 2)
    assert sorted({step for *_, step in notes.lines}) == [4, 5]


def test_a_refused_record_is_not_written():
    _, _, monitor = run()
    before = monitor.latest()
    notes = Notes()
    monitor.log_to(notes)
    with pytest.raises(ValueError, match=r"matrix: a tensor of shape \(2, 2\)"):
        monitor.record(loss=1.0, matrix=torch.zeros(2, 2))
    assert notes.lines == []
    assert monitor.latest() == before
    assert monitor.series()["loss"].shape == (1, 3)


def test_tensorboard_reads_back_what_was_recorded(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of TensorBoard's own dependencies
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from torch.utils.tensorboard import SummaryWriter

        model, opt, monitor = run(steps=0)
        with SummaryWriter(tmp_path) as writer:
            monitor.log_to(writer)
            go_on(model, opt, monitor, 3)
        events = EventAccumulator(str(tmp_path)).Reload()
    assert sorted(events.Tags()["scalars"]) == sorted(NAMES)
    series = monitor.series()
    for name in ("loss", "temperature[0]", "kinetic[0]", "kinetic[1]"):
        written = events.Scalars(name)
        assert [event.step for event in written] == [0, 1, 2]
        assert [event.value for event in written] == pytest.approx(series[name][0].tolist())
    assert [event.step for event in events.Scalars("iterations[0]")] == [1, 2]
    assert math.isclose(events.Scalars("iterations[0]")[-1].value, monitor.latest()["iterations[0]"])


@pytest.mark.parametrize("writer", [None, print, nn.Linear(1, 1)])
def test_what_is_no_writer_is_refused(writer):
    message = rf"writer: a {type(writer).__name__}; must have add_scalar\(tag, value, step\)"
    with pytest.raises(TypeError, match=message):
        run(steps=0)[2].log_to(writer)
