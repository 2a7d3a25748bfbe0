"""What a report calls right, off or undetermined, and which records it judges by."""

import math

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.diagnostics import Estimate, GroupReport, Monitor, kinetic_temperature, plot_run

LR, TAU = 0.1, 0.2


# ---- one estimate --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "error", "outcome"),
    [
        (1.0, 0.01, "right"),
        (1.04, 0.001, "right"),  # within the 5 % that do not matter
        (1.14, 0.05, "right"),  # the widest interval that is narrow
        (1.0, 0.051, "undetermined"),
        (0.62, 0.15, "undetermined"),
        (1.2, 0.08, "undetermined"),
        (1.0, 0.25, "undetermined"),
        (1.2, 0.05, "off"),
        (0.8, 0.05, "off"),
        (1.06, 0.001, "off"),
        (3.0, 0.5, "off"),
        (55_244.0, 2046.0, "off"),  # 27 errors from 1
        (-1e9, 1e6, "off"),
        (math.inf, math.nan, "off"),
        (math.nan, math.nan, "off"),
        (1.0, math.inf, "undetermined"),
        (1.0, math.nan, "undetermined"),
        (50.0, math.nan, "undetermined"),
    ],
)
def test_outcomes(value, error, outcome):
    assert Estimate(value, error).outcome == outcome


def test_right_is_only_said_of_narrow_intervals_that_contain_1():
    for value in torch.linspace(-1, 3, 81).tolist():
        for error in torch.logspace(-4, 2, 61).tolist():
            reach = max(0.05, 3 * error)
            contains = value - reach <= 1 <= value + reach
            expected = "off" if not contains else "right" if error <= 0.05 else "undetermined"
            assert Estimate(value, error).outcome == expected


# ---- one group -----------------------------------------------------------------------------------


def group(**options):
    sampled = {"temperature": (0.1, 0.1), "records": 100}
    given = {"kinetic": Estimate(1.0, 0.01), "configurational": Estimate(1.0, 0.01)}
    unsolved = {"violation": 0.0, "cotangency": 0.0, "iterations": None, "fallbacks": None}
    return GroupReport(0, "Free()", ("w",), "OBA", **{**sampled, **given, **unsolved, **options})


WIDE = Estimate(0.62, 0.15)


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, "temperatures right."),
        ({"kinetic": Estimate(1.2, 0.05)}, "kinetic temperature 1.20 of what was"),
        ({"kinetic": Estimate(0.8, 0.05)}, "kinetic temperature 0.80 of what was"),
        (
            {"kinetic": Estimate(55_244.0, 2046.0)},
            "kinetic temperature 55244.00 of what was asked for: step too large for w",
        ),
        (
            {"kinetic": Estimate(math.nan, math.nan)},
            "kinetic temperature nan of what was asked for: step too large for w",
        ),
        ({"configurational": Estimate(3.0, 0.5)}, "configurational temperature 3.00 of what was"),
        ({"configurational": Estimate(1.3, 0.05)}, "configurational temperature 1.30 of what was"),
        (
            {"configurational": Estimate(math.inf, math.nan)},
            "configurational temperature inf of what was asked for: step too large for w",
        ),
        # what is off is said, whatever the other is
        ({"kinetic": WIDE, "configurational": Estimate(1.3, 0.05)}, "configurational temperature 1.30 of"),
        ({"kinetic": WIDE, "configurational": WIDE}, "temperatures undetermined."),
        (
            {"configurational": WIDE},
            "kinetic temperature right; configurational temperature undetermined.",
        ),
        (
            {"kinetic": WIDE},
            "kinetic temperature undetermined; configurational temperature right.",
        ),
        ({"configurational": None}, "kinetic temperature right; configurational temperature undetermined."),
        ({"kinetic": None}, "configurational temperature right."),
        ({"kinetic": None, "configurational": WIDE}, "configurational temperature undetermined."),
        ({"kinetic": None, "configurational": None}, "configurational temperature undetermined."),
        ({"records": 3}, "too few records to judge."),
        ({"records": 0}, "lr 0: nothing is sampled."),
        ({"records": 0, "temperature": (0.0, 0.0)}, "temperature 0: nothing is sampled."),
    ],
)
def test_verdicts(options, verdict):
    assert group(**options).verdict.startswith(verdict)


# ---- runs ----------------------------------------------------------------------------------------


def run(kind, steps=400, *, divergent=False, **changes):
    """64 free weights in V = |w|^2 / 2; ``changes`` says which option has which value in which step."""
    torch.manual_seed(0)
    weight = nn.Parameter(0.1 * torch.randn(64, dtype=torch.float64))
    options = {"lr": LR, "temperature": TAU, "seed": 0}
    if kind is cl.CoLud:
        options |= {"friction": 1.0, "splitting": "BAOAB"}
    elif kind is cl.ConstrainedSGD:
        options |= {"momentum": 0.9}
    opt = kind([("w", weight)], **options)
    monitor = Monitor(opt, burn_in=50)
    for step in range(steps):
        for name, values in changes.items():
            opt.param_groups[0][name] = values.get(step, options[name])
        weight.grad = (-weight.detach()).clamp(-1e3, 1e3) if divergent else weight.detach().clone()
        monitor.record()
        opt.step()
    return monitor


def test_a_diverged_sampler_is_off():
    """Pushed outwards by a bounded force: momenta are far too hot, at a size that no longer changes."""
    found = run(cl.CoLud, divergent=True).report().groups[0]
    assert found.kinetic.value > 1000
    assert found.kinetic.error > 0.25
    assert found.verdict.startswith("kinetic temperature ")
    assert "step too large for w" in found.verdict


@pytest.mark.parametrize("kind", [cl.CoLud, cl.ConstrainedSGD, cl.CoLod])
@pytest.mark.parametrize("option", ["lr", "temperature"])
def test_a_record_at_0_is_left_out(kind, option):
    """A step in which nothing moves, or nothing is random, recorded among 350 that sample."""
    found = run(kind, **{option: {100: 0.0}}).report().groups[0]
    assert found.records == 349
    assert math.isfinite(found.configurational.value)
    assert math.isfinite(found.configurational.error)
    if kind is not cl.CoLod:
        assert math.isfinite(found.kinetic.value)
        assert math.isfinite(found.kinetic.error)


def test_the_others_are_judged_as_without_it():
    """A record at lr 0 repeats what was there: without it the averages are those of the other records."""
    monitor = run(cl.CoLud, lr={100: 0.0})
    kinetic, tau = monitor.series()["kinetic[0]"], monitor.series()["temperature[0]"]
    assert bool(kinetic.isfinite().all())
    others = torch.arange(350) != 50
    expected = (kinetic / tau)[:, others].mean()
    assert monitor.report().groups[0].kinetic.value == pytest.approx(float(expected))


def test_momenta_at_lr_0_are_what_they_were():
    weight = nn.Parameter(torch.zeros(8, dtype=torch.float64))
    opt = cl.CoLud([("w", weight)], LR, friction=1.0, temperature=TAU, seed=0)
    weight.grad = torch.zeros_like(weight)
    opt.step()
    before = kinetic_temperature(opt)["w"]
    assert before > 0
    opt.param_groups[0]["lr"] = 0.0
    assert kinetic_temperature(opt) == {"w": before}
    opt.param_groups[0]["lr"] = torch.tensor(0.0)
    assert kinetic_temperature(opt) == {"w": before}


@pytest.mark.parametrize("option", ["lr", "temperature"])
def test_a_run_at_0_samples_nothing(option):
    found = run(cl.CoLud, 60, **{option: dict.fromkeys(range(60), 0.0)}).report().groups[0]
    assert (found.records, found.kinetic, found.configurational) == (0, None, None)
    assert found.verdict == f"{option} 0: nothing is sampled."


def test_a_batch_that_is_skipped_is_left_out():
    weight = nn.Parameter(torch.zeros(64, dtype=torch.float64))
    opt = cl.CoLud([("w", weight)], LR, friction=1.0, temperature=TAU, splitting="BAOAB", seed=0)
    monitor = Monitor(opt)
    for step in range(100):
        weight.grad = weight.detach().clone()
        if step == 50:
            weight.grad[3] = torch.nan
        monitor.record()
        try:
            opt.step()
        except cl.NonFiniteError:
            continue
    found = monitor.report().groups[0]
    assert found.records == 99
    assert math.isfinite(found.configurational.value)


def test_a_replica_at_rest_is_left_out():
    replicas = cl.Replicas(lambda: nn.Linear(4, 4).double(), 3, seed=0)
    lr = torch.tensor([0.1, 0.0, 0.1], dtype=torch.float64)
    opt = cl.CoLud(replicas.constrain({}), lr, friction=2.0, temperature=TAU, splitting="BAOAB", seed=0)
    monitor = Monitor(opt, burn_in=100)
    for _ in range(600):
        opt.zero_grad()
        replicas(torch.eye(4, dtype=torch.float64)).square().sum().backward()
        monitor.record()
        opt.step()
    series = monitor.series()
    moving = (series["kinetic[0]"] / series["temperature[0]"])[[0, 2]]
    found = monitor.report().groups[0]
    assert found.records == 500
    assert found.kinetic.value == pytest.approx(float(moving.mean()))


def test_a_plot_leaves_out_what_is_not_known():
    axis = plot_run(run(cl.CoLud, 100, temperature={70: 0.0})).axes[0]
    drawn, running = (torch.tensor(line.get_ydata()) for line in axis.lines[:2])
    assert drawn.isnan().nonzero().tolist() == [[20]]
    assert bool(running.isfinite().all())
    assert float(running[-1]) == pytest.approx(float(drawn.nanmean()))
