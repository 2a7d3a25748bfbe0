"""Counts of solves belong to one optimizer's steps, to the thread that takes them, and end with a step."""

import copy
import pickle
import threading

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.constraints import solves
from colangevin.diagnostics import Monitor


def optimizer(**options):
    weight = nn.Parameter(torch.eye(3))
    weight.grad = torch.ones(3, 3)
    return cl.CoLod([{"params": [("w", weight)], "constraint": cl.Orthogonal()}], 0.1, **options)


def watched(opt, **options):
    """A monitor that counts from now on."""
    monitor = Monitor(opt, **options)
    monitor.record()
    return monitor


def calls(monitor):
    return monitor._solves.of("Orthogonal").calls


def test_another_optimizer_s_steps_are_not_counted():
    first, second = optimizer(), optimizer()
    monitor = watched(first)
    second.step()
    first.step()
    assert calls(monitor) == 1


def test_a_step_inside_another_s_closure_is_its_own():
    inner, outer = optimizer(), optimizer()
    one, other = watched(inner), watched(outer)

    def closure():
        inner.step()
        return torch.zeros(())

    outer.step(closure)
    assert (calls(one), calls(other)) == (1, 1)


def test_a_step_that_raises_stops_counting():
    opt, other = optimizer(), optimizer()
    monitor = watched(opt)
    opt.param_groups[0]["params"][0].grad.fill_(torch.nan)
    with pytest.raises(cl.NonFiniteError):
        opt.step()
    assert not solves.current.get()
    other.step()
    assert calls(monitor) == 0


def test_a_step_undone_half_way_stops_counting():
    """The gradient of the second segment is not finite: its solves are never counted, those before are."""
    weight = nn.Parameter(torch.eye(3))
    weight.grad = torch.zeros(3, 3)
    group = {"params": [weight], "constraint": cl.Orthogonal()}
    opt = cl.CoLud([group], 0.1, friction=1.0, splitting="ABOBA", temperature=0.1, seed=0)
    monitor = watched(opt)
    gradients = iter([0.0, torch.nan])

    def closure():
        weight.grad = torch.full((3, 3), next(gradients))
        return torch.zeros(())

    with pytest.raises(cl.NonFiniteError):
        opt.step(closure)
    assert not solves.current.get()
    before = calls(monitor)
    optimizer().step()
    assert calls(monitor) == before


def test_threads_count_apart():
    """Each thread waits within its step, so that all steps are under way at once."""
    count = 3
    within = threading.Barrier(count, timeout=30)

    def wait(w):
        if not waited.seen:
            waited.seen = True
            within.wait()
        return w.square().sum() - 1

    class Waited(threading.local):
        seen = True

    waited = Waited()
    made = []
    for _ in range(count):
        weight = nn.Parameter(torch.tensor([1.0, 0.0]))
        opt = cl.CoLod([{"params": [weight], "constraint": cl.Implicit(wait)}], 0.1)
        made.append((opt, watched(opt)))
        weight.grad = torch.zeros(2)

    def step(opt, times):
        waited.seen = False
        for _ in range(times):
            opt.step()

    threads = [threading.Thread(target=step, args=(opt, k + 1)) for k, (opt, _) in enumerate(made)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # a step solves once, and the first one for its start as well
    assert [monitor._solves.of("Implicit").calls for _, monitor in made] == [2, 3, 4]


def test_steps_of_the_burn_in_are_not_counted():
    opt = optimizer()
    monitor = Monitor(opt, burn_in=2)
    for _ in range(5):
        monitor.record()
        opt.step()
    assert calls(monitor) == 3


def test_two_monitors_count_the_same_steps():
    opt = optimizer()
    first = watched(opt)
    opt.step()
    second = watched(opt)
    opt.step()
    assert (calls(first), calls(second)) == (2, 1)


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_of_the_optimizer_is_not_watched(twin):
    opt = optimizer()
    monitor = watched(opt)
    other = twin(opt)
    other.param_groups[0]["params"][0].grad = torch.ones(3, 3)
    other.step()
    assert calls(monitor) == 0


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_of_the_monitor_watches_the_copy_of_its_optimizer(twin):
    monitor = watched(optimizer())
    other = twin(monitor)
    other.optimizer.param_groups[0]["params"][0].grad = torch.ones(3, 3)
    other.record()
    other.optimizer.step()
    assert (calls(monitor), calls(other)) == (0, 1)


def test_a_compiled_step_counts():
    opt = optimizer()
    monitor = watched(opt)
    torch.compile(opt.step, backend="eager")()
    assert calls(monitor) == 1
