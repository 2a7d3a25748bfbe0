"""The real Accelerate, as it is: it resumes bit for bit, and diagnostics see through its wrappers."""

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.diagnostics import Monitor, cotangency, kinetic_temperature, violation
from tests.integrations.small_training import batches, dynamics, network, same, weights, worst_violation

EPOCHS = 2


@pytest.fixture(autouse=True)
def fresh_process():
    """Accelerate allows one kind of precision a process. Forget the one of the test before."""
    from accelerate.state import AcceleratorState, GradientState

    for state in (AcceleratorState, GradientState):
        state._reset_state()


class Run:
    """A loop as Accelerate's documentation has it, with a schedule and samples."""

    def __init__(self, seed=0, **options):
        from accelerate import Accelerator

        self.accelerator = Accelerator(cpu=True, **options)
        model = network(seed)
        optimizer = dynamics(model)
        schedule = cl.schedules.Linear(optimizer, 100, end=0.1)
        prepared = self.accelerator.prepare(model, optimizer, batches(6), schedule)
        self.model, self.optimizer, self.loader, self.schedule = prepared
        self.samples = cl.Samples(model, every=4)
        self.mean = cl.RunningMean(optimizer)
        self.accelerator.register_for_checkpointing(self.samples, self.mean)
        self.monitor = Monitor(self.optimizer)

    def train(self, epochs):
        for _ in range(epochs):
            for x, y in self.loader:
                with self.accelerator.accumulate(self.model):
                    self.accelerator.backward(nn.functional.cross_entropy(self.model(x), y))
                    if self.accelerator.sync_gradients:
                        self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
                        self.monitor.record()
                    self.optimizer.step()
                    if self.accelerator.sync_gradients:
                        self.samples.collect()
                        self.mean.update()
                    self.schedule.step()
                    self.optimizer.zero_grad()
        return self


@pytest.mark.parametrize(
    "options", [{}, {"gradient_accumulation_steps": 2}, {"mixed_precision": "bf16"}], ids=repr
)
def test_a_resumed_training_is_the_same_bit_for_bit(tmp_path, options):
    whole = Run(**options).train(2 * EPOCHS)
    half = Run(**options).train(EPOCHS)
    half.accelerator.save_state(str(tmp_path))
    rest = Run(seed=9, **options)
    rest.accelerator.load_state(str(tmp_path))
    rest.train(EPOCHS)
    assert same(weights(whole.model), weights(rest.model))
    assert not same(weights(whole.model), weights(half.model))
    assert whole.schedule.scheduler.last_step == rest.schedule.scheduler.last_step > 0
    assert len(whole.samples) == len(rest.samples) > 1
    for name in whole.samples[0]:
        assert torch.equal(whole.samples.draws(name), rest.samples.draws(name))
    assert same(whole.mean.weights().values(), rest.mean.weights().values())
    assert worst_violation(rest.model) < 1e-5


def test_the_comparison_sees_what_is_not_restored(tmp_path):
    whole = Run().train(2 * EPOCHS)
    half = Run().train(EPOCHS)
    rest = Run(seed=9)
    rest.model.load_state_dict(half.model.state_dict())
    rest.schedule.load_state_dict(half.schedule.state_dict())
    rest.train(EPOCHS)
    assert not same(weights(whole.model), weights(rest.model))


def test_schedules_count_steps_of_the_optimizer():
    run = Run(gradient_accumulation_steps=3).train(1)
    assert run.schedule.scheduler.last_step == 2
    assert run.optimizer.param_groups[0]["temperature"] == pytest.approx(1e-3 * (1 - 0.9 * 2 / 100))


def test_a_schedule_that_is_registered_rather_than_prepared(tmp_path):
    from accelerate import Accelerator

    found = []
    for resume in (False, True):
        accelerator = Accelerator(cpu=True)
        optimizer = accelerator.prepare(dynamics(network()))
        schedule = cl.schedules.Linear(optimizer, 4, end=0.0)
        accelerator.register_for_checkpointing(schedule)
        if resume:
            accelerator.load_state(str(tmp_path))
        else:
            schedule.step()
            accelerator.save_state(str(tmp_path))
        found.append((schedule.last_step, optimizer.param_groups[0]["temperature"]))
    assert found == [(1, pytest.approx(0.75e-3))] * 2


def test_diagnostics_see_through_the_wrappers():
    run = Run().train(1)
    names = {name for name, _ in run.model.named_parameters()}
    for measure in (violation, cotangency, kinetic_temperature):
        found = measure(run.optimizer)
        assert found.keys() == names
        assert found == measure(run.optimizer.optimizer)
    assert max(violation(run.optimizer).values()) < 1e-5
    assert run.monitor.latest()["kinetic[0]"] > 0
    assert type(run.optimizer).__name__ == "AcceleratedOptimizer"
