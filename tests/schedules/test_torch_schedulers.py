"""A schedule is a scheduler to torch and to whoever asks, and leaves the learning rate alone."""

import copy
import pickle

import pytest
import torch
from accelerate import Accelerator
from accelerate.scheduler import AcceleratedScheduler
from torch import nn
from torch.optim.lr_scheduler import ChainedScheduler, ExponentialLR, LRScheduler, SequentialLR

import colangevin as cl
from colangevin.schedules import Constant, Cosine, Cyclical, Exponential, Linear

BUILDS = {
    "Constant": lambda opt: Constant(opt, 0.5, 2),
    "Linear": lambda opt: Linear(opt, 4, 0.0),
    "Cosine": lambda opt: Cosine(opt, 4, 0.0),
    "Exponential": lambda opt: Exponential(opt, 4, 0.1),
    "Cyclical": lambda opt: Cyclical(opt, 4, explore=0.5),
}


def optimizer(lr=0.1, temperature=1.0):
    return cl.CoLud(
        nn.Linear(2, 1).named_parameters(), lr, friction=1.0, temperature=temperature, splitting="BAOAB"
    )


def temperatures(opt, schedule, steps):
    """The temperatures of the next steps."""
    seen = []
    for _ in range(steps):
        seen.append(float(opt.param_groups[0]["temperature"]))
        opt.step()
        schedule.step()
    return seen


@pytest.mark.parametrize("build", BUILDS)
def test_it_is_one_and_tells_the_rates(build):
    opt = optimizer(lr=torch.tensor(0.5))
    schedule = BUILDS[build](opt)
    assert isinstance(schedule, LRScheduler)
    temperatures(opt, schedule, 3)
    assert schedule.last_epoch == schedule.last_step == 3
    for tell in (schedule.get_last_lr, schedule.get_lr, lambda: schedule.base_lrs):
        assert tell() == [0.5]
        tell()[0].zero_()  # a copy
    opt.param_groups[0]["lr"].fill_(0.25)
    assert schedule.get_last_lr() == [0.25]
    assert schedule.base_lrs == [0.5]


@pytest.mark.parametrize("build", BUILDS)
def test_it_does_not_wrap_the_step_nor_mind_the_order(build):
    opt = optimizer()
    schedule = BUILDS[build](opt)
    assert "step" not in vars(opt)
    schedule.step()  # warnings are errors
    schedule.step()


def test_states_of_the_first_version_load():
    schedule = Cosine(optimizer(), 6, 0.1, option="friction")
    schedule.load_state_dict({"steps": 8, "end": 0.2, "start": 1.0, "option": "friction", "last_step": 4})
    assert schedule.get_last_value() == pytest.approx([0.6])
    cycles = Cyclical(optimizer(), 6)
    saved = {"cycle": 4, "explore": 0.5, "exploring_factor": 3.0, "settle": 0, "option": "temperature"}
    cycles.load_state_dict({**saved, "last_step": 5})
    assert cycles.get_last_value() == [3.0]
    assert cycles.state_dict() == {**saved, "last_step": 5}


def one_after_another(opt):
    return SequentialLR(opt, [Constant(opt, 0.0, 100), Linear(opt, 2, 0.0), Constant(opt, 5.0, 9)], [2, 5])


COURSE = [0, 0, 1, 0.5, 0, 5, 5, 5]


def test_one_after_another():
    opt = optimizer()
    assert temperatures(opt, one_after_another(opt), 8) == COURSE
    assert opt.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize("steps", [1, 3, 6])
@pytest.mark.parametrize("late", [False, True], ids=["loaded first", "loaded before it is built"])
def test_one_after_another_resumes(steps, late):
    opt = optimizer()
    schedule = one_after_another(opt)
    temperatures(opt, schedule, steps)
    saved = copy.deepcopy((opt.state_dict(), schedule.state_dict()))
    other = optimizer()
    if late:
        other.load_state_dict(saved[0])
    resumed = one_after_another(other)
    if not late:
        other.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    assert temperatures(other, resumed, 8 - steps) == COURSE[steps:]


def test_one_after_another_beside_torch_s_own():
    opt = optimizer()
    schedule = SequentialLR(opt, [Linear(opt, 2, 0.0), ExponentialLR(opt, 0.5)], [2])
    seen = []
    for _ in range(5):
        seen.append((opt.param_groups[0]["temperature"], opt.param_groups[0]["lr"]))
        opt.step()
        schedule.step()
    assert seen == [(1, 0.1), (0.5, 0.1), (0.5, 0.1), (0.5, 0.05), (0.5, 0.025)]


def test_all_at_once():
    opt = optimizer()
    schedule = ChainedScheduler([Linear(opt, 2, 0.0), ExponentialLR(opt, 0.5)], optimizer=opt)
    assert temperatures(opt, schedule, 3) == [1, 0.5, 0]
    assert schedule.get_last_lr() == [0.0125]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))])
def test_copies_follow_their_own_optimizer(copied):
    opt = optimizer()
    other, schedule = copied((opt, Linear(opt, 4, 0.0)))
    assert temperatures(other, schedule, 3) == [1, 0.75, 0.5]
    assert opt.param_groups[0]["temperature"] == 1


def test_accelerate_steps_it_with_the_optimizer():
    """Under gradient accumulation too, where it counts calls in the schedule that take no step."""
    model = nn.Linear(2, 1)
    inner = cl.CoLod(model.named_parameters(), 0.1, temperature=1.0, seed=0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, opt, schedule = accelerator.prepare(model, inner, Linear(inner, 4, 0.0))
    assert isinstance(schedule, AcceleratedScheduler)
    seen = []
    for _ in range(4):
        with accelerator.accumulate(model):
            seen.append(inner.param_groups[0]["temperature"])
            accelerator.backward(model(torch.ones(1, 2)).sum())
            opt.step()
            schedule.step()
            opt.zero_grad()
    assert seen == [1, 1, 0.75, 0.75]
    assert schedule.get_last_lr() == [0.1]
    assert schedule.state_dict() == {
        "steps": 4, "end": 0.0, "start": 1.0, "option": "temperature", "last_step": 2
    }  # fmt: skip
