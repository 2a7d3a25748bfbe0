"""Torch's wrapper around ``step`` is there when somebody looks, and left out when nobody does."""

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

import colangevin as cl


@pytest.fixture
def named(monkeypatch):
    """The names of steps that torch has been given."""
    names = []
    record = torch.autograd.profiler.record_function

    def noted(name, *args):
        names.append(name)
        return record(name, *args)

    monkeypatch.setattr(torch.autograd.profiler, "record_function", noted)
    return names


@pytest.fixture
def opt():
    weight = nn.Parameter(torch.zeros(3))
    weight.grad = torch.ones(3)
    return cl.CoLud([weight], 0.1, friction=1.0)


def test_a_step_that_nobody_watches_is_not_named(opt, named):
    opt.step()
    assert named == []


def test_a_profiled_step_is_named(opt, named):
    with torch.autograd.profiler.profile():
        opt.step()
    assert named == ["Optimizer.step#CoLud.step"]
    opt.step()
    assert len(named) == 1


def test_hooks_bring_the_wrapper_back(opt, named):
    for register in (opt.register_step_pre_hook, opt.register_step_post_hook):
        handle = register(lambda *_: None)
        opt.step()
        handle.remove()
    handle = register_optimizer_step_post_hook(lambda *_: None)
    opt.step()
    handle.remove()
    opt.step()
    assert len(named) == 3
