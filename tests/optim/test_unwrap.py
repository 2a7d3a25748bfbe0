"""Diagnostics, schedules and means see through the wrappers of training frameworks, and refuse the rest."""

from unittest.mock import MagicMock

import pytest
import torch
from accelerate import Accelerator
from torch import nn

import colangevin as cl
from colangevin.diagnostics import Monitor, cotangency, kinetic_temperature, violation
from colangevin.optim.unwrap import unwrap


class Accelerated(torch.optim.Optimizer):
    """As accelerate.optimizer.AcceleratedOptimizer: an Optimizer whose attributes are properties."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    @property
    def state(self):
        return self.optimizer.state

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    @property
    def defaults(self):
        return self.optimizer.defaults

    def step(self, closure=None):
        return self.optimizer.step(closure)


class Lit:
    """As lightning.pytorch.core.optimizer.LightningOptimizer: it takes on the class of what it wraps."""

    def __init__(self, optimizer):
        self._optimizer = optimizer
        self.__class__ = type("Lit" + type(optimizer).__name__, (Lit, type(optimizer)), {})

    @property
    def optimizer(self):
        return self._optimizer

    def __getattr__(self, name):
        return getattr(self._optimizer, name)

    def step(self, closure=None):
        return self._optimizer.step(closure)


def optimizer():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    groups = cl.constrain(model, {"weight": cl.Orthogonal(), "bias": cl.Circle(2.0)})
    made = cl.CoLud(groups, 0.1, friction=1.0, temperature=0.1, seed=0)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return made


WRAPPERS = {
    "Accelerate's own": lambda inner: Accelerator(cpu=True).prepare(inner),
    "accelerate": Accelerated,
    "lightning": Lit,
    "both": lambda inner: Lit(Accelerated(inner)),
    "twice": lambda inner: Accelerated(Accelerated(inner)),
}


@pytest.fixture(params=WRAPPERS)
def wrapped(request):
    return WRAPPERS[request.param](optimizer())


def test_the_innermost_optimizer_is_meant(wrapped):
    inner = unwrap(wrapped)
    assert type(inner) is cl.CoLud
    assert unwrap(inner) is inner


@pytest.mark.parametrize("measure", [violation, cotangency, kinetic_temperature])
def test_measures_are_those_of_the_inner_one(wrapped, measure):
    wrapped.step()
    assert measure(wrapped) == measure(unwrap(wrapped))
    assert measure(wrapped).keys() == {"weight", "bias"}


def test_a_monitor_counts_the_steps_of_the_inner_one(wrapped):
    monitor = Monitor(wrapped)
    for _ in range(5):
        monitor.record()
        wrapped.step()
    assert monitor._solves.of("Orthogonal").calls == 5
    assert monitor.report().groups[0].records == 5


def test_a_schedule_moves_the_inner_one(wrapped):
    schedule = cl.schedules.Linear(wrapped, 2, 0.0)
    schedule.step()
    assert [group["temperature"] for group in unwrap(wrapped).param_groups] == [0.05, 0.05]


def test_a_running_mean_averages_the_inner_one(wrapped):
    mean = cl.RunningMean(wrapped)
    mean.update()
    assert mean.weights().keys() == {"weight", "bias"}


ENTRIES = {
    "violation": violation,
    "cotangency": cotangency,
    "kinetic_temperature": kinetic_temperature,
    "Monitor": Monitor,
    "Linear": lambda given: cl.schedules.Linear(given, 2, 0.0),
    "Cyclical": lambda given: cl.schedules.Cyclical(given, 10),
    "RunningMean": cl.RunningMean,
}


def another():
    return torch.optim.SGD(nn.Linear(1, 1).named_parameters(), 0.1)


def scheduler():
    return torch.optim.lr_scheduler.StepLR(optimizer(), 1)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda: nn.Linear(1, 1), "a Linear"),
        (lambda: None, "a NoneType"),
        (another, "a SGD"),
        (scheduler, "a StepLR"),
        (lambda: Accelerated(another()), "a Accelerated around a SGD"),
        (MagicMock, "a MagicMock around a MagicMock"),
    ],
)
def test_anything_else_is_refused_by_its_class(entry, given, words):
    with pytest.raises(TypeError, match=rf"^optimizer: {words}; must be an optimizer of this library, "):
        ENTRIES[entry](given())
