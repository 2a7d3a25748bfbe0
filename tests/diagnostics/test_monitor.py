"""The monitor: what it records, its verdicts on good and bad runs, its table and its plot."""

import io
import math

import pytest
import torch
from rich.console import Console
from torch import nn

import colangevin as cl
from colangevin.diagnostics import Monitor, plot_run

TAU = 0.2


def oscillator(h, *, splitting="OBA", stiffness=1.0, burn_in=100, steps=1500, noise=0.0, constraint=None):
    """512 free weights in V = k |w|^2 / 2, watched."""
    weight = nn.Parameter(torch.full((8, 64), 0.1, dtype=torch.float64))
    group = {"params": [("w", weight)], "constraint": constraint or cl.Free()}
    opt = cl.CoLud([group], h, friction=1.0, temperature=TAU, splitting=splitting, seed=0)
    monitor = Monitor(opt, burn_in=burn_in)
    generator = torch.Generator().manual_seed(0)
    for _ in range(burn_in + steps):
        error = noise * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        weight.grad = stiffness * weight.detach() + error
        monitor.record()
        opt.step()
    return monitor.report().groups[0]


def test_a_good_run_is_called_right():
    group = oscillator(0.1, splitting="BAOAB")
    assert group.verdict == "temperatures right."
    assert group.kinetic.value == pytest.approx(1, abs=0.02)
    assert group.configurational.value == pytest.approx(1, abs=0.05)
    assert (group.violation, group.cotangency) == (0, 0)
    assert group.iterations is None
    assert group.fallbacks is None
    assert group.temperature == (TAU, TAU)


def test_the_bias_of_oba_is_seen_in_the_positions():
    """At h = 0.3 OBA samples tau (1 + e^-0.3)/2 = 0.87 tau, with a kinetic temperature 2 % off."""
    group = oscillator(0.3)
    assert group.configurational.value == pytest.approx(0.88, abs=0.03)
    assert group.verdict == (
        f"configurational temperature {group.configurational.value:.2f} of what was asked for: w is not in "
        "equilibrium. Burn in longer, or use BAOAB, since OBA errs in proportion to lr."
    )


def test_a_step_too_large_is_called_so():
    """At h sqrt(k) = 1.5, of a limit near 2, momenta are too hot."""
    group = oscillator(1.5, steps=400)
    assert group.kinetic.value > 1.2
    assert group.verdict == (
        f"kinetic temperature {group.kinetic.value:.2f} of what was asked for: step too large for w, or for "
        "the noise of its batches. Reduce lr, or raise friction or the batch size."
    )


def test_batches_that_heat_are_called_so():
    group = oscillator(0.2, noise=3.0, splitting="BAOAB", steps=400)
    assert group.kinetic.value > 1.2
    assert "the noise of its batches" in group.verdict


def test_a_run_that_has_not_warmed_up_is_called_so():
    group = oscillator(0.001, burn_in=0, steps=200)
    assert group.kinetic.value < 0.5
    assert group.verdict.endswith("w is not in equilibrium. Burn in longer, or raise friction.")


def test_fallbacks_are_counted_and_named():
    torch.manual_seed(0)
    weight = nn.Parameter(torch.empty(2, 12, 8))
    cl.Orthogonal().init_(weight, init="draw", replicas=True)
    group = {"params": [("w", weight)], "constraint": cl.Orthogonal(), "replicas": 2}
    opt = cl.CoLud([group], 0.3, friction=1.0, temperature=1.0, seed=0)
    monitor = Monitor(opt, burn_in=50)
    for _ in range(300):
        weight.grad = torch.zeros_like(weight)
        monitor.record()
        opt.step()
    found = monitor.report().groups[0]
    assert found.fallbacks > 0.5
    assert found.iterations > 3
    assert found.violation < 1e-5
    assert found.cotangency < 1e-5
    assert f"in {found.fallbacks:.0%} of the projections the fallback acted, which takes" in found.verdict


def test_short_steps_need_few_iterations_and_no_fallback():
    weight = nn.Parameter(torch.eye(6, 3, dtype=torch.float64))
    opt = cl.CoLud([{"params": [weight], "constraint": cl.Orthogonal()}], 1e-3, friction=1.0, temperature=1.0)
    monitor = Monitor(opt)
    for _ in range(20):
        weight.grad = torch.zeros_like(weight)
        monitor.record()
        opt.step()
    found = monitor.report().groups[0]
    assert found.fallbacks == 0
    assert 1 <= found.iterations <= 8


def test_implicit_constraints_count_newton():
    weight = nn.Parameter(torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))
    group = {"params": [("w", weight)], "constraint": cl.Implicit(lambda w: w.square().sum() - 1)}
    opt = cl.CoLod([group], 0.01, temperature=0.1, seed=0)
    monitor = Monitor(opt)
    for _ in range(10):
        weight.grad = torch.zeros_like(weight)
        monitor.record()
        opt.step()
    found = monitor.report().groups[0]
    assert (found.fallbacks, found.kinetic, found.cotangency) == (0, None, None)
    assert 2 <= found.iterations <= 8
    # a step across the sphere cannot be undone along the normal at its start
    weight.grad = torch.tensor([0.0, 500.0, 0.0], dtype=torch.float64)
    opt.step()
    assert monitor.report().groups[0].fallbacks == pytest.approx(1 / 12)  # of 11 steps and the start


def test_replicas_are_chains_with_temperatures_of_their_own():
    replicas = cl.Replicas(lambda: nn.Linear(4, 4).double(), 3, seed=0)
    tau = torch.tensor([0.1, 0.2, 0.4], dtype=torch.float64)
    opt = cl.CoLud(
        replicas.constrain({"weight": cl.Circle(1.0)}), 0.1, friction=2.0, temperature=tau, splitting="BAOAB"
    )
    monitor = Monitor(opt, every=2, burn_in=100)
    for _ in range(1100):
        opt.zero_grad()
        losses = replicas(torch.eye(4, dtype=torch.float64)).square().mean((1, 2))
        losses.sum().backward()
        monitor.record(loss=losses, time=1.0)
        opt.step()
    series = monitor.series()
    assert series["loss"].shape == series["kinetic[0]"].shape == (3, 500)
    assert series["time"].shape == (1, 500)
    assert series["temperature[1]"][:, 7].tolist() == tau.tolist()
    report = monitor.report()
    for group in report.groups:
        assert group.temperature == (0.1, 0.4)
        assert group.kinetic.value == pytest.approx(1, abs=max(0.1, 5 * group.kinetic.error))
    # chains of different temperatures have different means, and do not pass for draws from one law
    convergence = report.convergence()["loss"]
    assert convergence.rhat > 1.1
    assert 1 < convergence.ess < 100
    assert monitor.to_arviz().posterior["loss"].shape == (3, 500)


def test_weight_decay_and_maximize_are_part_of_the_gradient():
    """-|w|^2/2 maximised with decay 1 is V = |w|^2 in all: work is 2 |w|^2 / tau for a reference at 0."""
    weight = nn.Parameter(torch.zeros(4, dtype=torch.float64))
    opt = cl.CoLod([weight], 0.1, temperature=0.5, weight_decay=1.0, maximize=True, seed=0)
    monitor = Monitor(opt)
    weight.grad = torch.zeros_like(weight)
    monitor.record()
    with torch.no_grad():
        weight.fill_(3.0)
    weight.grad = -weight.detach()
    monitor.record()
    assert float(monitor._records[0][1]["work"]) == pytest.approx(2 * 9 * 4 / 0.5)
    assert float(monitor._records[0][1]["divergence"]) == 4


def test_temperature_0_and_too_few_records():
    weight = nn.Parameter(torch.zeros(4))
    for tau, verdict in ((0.0, "temperature 0: nothing is sampled."), (0.1, "too few records to judge.")):
        opt = cl.CoLud([weight], 0.1, friction=1.0, temperature=tau)
        monitor = Monitor(opt)
        weight.grad = torch.ones(4)
        opt.step()
        monitor.record()
        assert monitor.report().groups[0].verdict == verdict


def test_the_table_and_the_plot():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    opt = cl.CoLud(
        cl.constrain(model, {"0.weight": cl.Orthogonal()}), 0.05, friction=1.0, temperature=1e-3, seed=0
    )
    monitor = Monitor(opt)
    x = torch.randn(8, 3)
    for _ in range(20):
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        monitor.record(loss=loss)
        opt.step()
    report = monitor.report()
    console = Console(width=240, record=True, file=io.StringIO())
    console.print(report)
    text = console.export_text()
    for word in ("0: 0.weight", "1: 0.bias and 2 more", "Orthogonal()", "kinetic / τ", "fallbacks", "R-hat"):
        assert word in text
    assert str(report).startswith("group 0 (0.weight, Orthogonal()): kinetic ")
    figure = plot_run(monitor)
    assert [axis.get_ylabel() for axis in figure.axes] == ["kinetic temperature / τ", "loss"]
    assert len(figure.axes[0].lines) == 5  # two groups, their running means, and 1


def test_show_prints(capsys):
    weight = nn.Parameter(torch.zeros(4))
    monitor = Monitor(cl.CoLod([weight], 0.1, temperature=0.1))
    monitor.record()
    monitor.report().show()
    assert "Free(): too few records to judge." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda opt: Monitor(opt, every=0), r"every=0: must be a whole number of calls, at least 1"),
        (lambda opt: Monitor(opt, burn_in=-1), r"burn_in=-1: must be a whole number of calls, at least 0"),
        (lambda opt: Monitor(opt).report(), r"monitor: nothing was recorded; record\(\) was called 0 times"),
        (
            lambda opt: Monitor(opt).record(loss=torch.zeros(2, 2)),
            r"loss: a tensor of shape \(2, 2\)",
        ),
    ],
)
def test_errors(use, message):
    with pytest.raises(ValueError, match=message):
        use(cl.CoLod([nn.Parameter(torch.zeros(2))], 0.1, temperature=math.pi))
