"""The callback in trainings of the real Lightning: what it logs, and what it does after a step."""

import csv

import pytest
import torch

import colangevin as cl
from tests.integrations.small_training import (
    LIGHTNING_WARNINGS,
    TEMPERATURE,
    batches,
    dynamics,
    worst_violation,
)

pytestmark = LIGHTNING_WARNINGS

NAMES = {f"{name}[{group}]" for name in ("temperature", "kinetic", "violation") for group in range(5)}


def test_numbers_go_to_the_loggers_and_to_the_trainers_metrics(lit, tmp_path):
    from lightning.pytorch.loggers import CSVLogger

    logger = CSVLogger(tmp_path)
    trainer = lit.trainer(tmp_path, lit.ConstraintCallback(every=2), logger=logger)
    trainer.fit(lit.Lit(), batches(6))
    logger.save()
    with open(logger.experiment.metrics_file_path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["1", "3", "5"]
    for row in rows:
        assert row.keys() >= NAMES
        assert float(row["temperature[0]"]) == TEMPERATURE
        assert 0 < float(row["violation[2]"]) < 1e-5
    # Orthogonal is the fourth group; its solver had run by the second record
    assert float(rows[1]["iterations[3]"]) >= 1
    assert float(trainer.callback_metrics["kinetic[3]"]) == pytest.approx(float(rows[-1]["kinetic[3]"]))


def test_without_a_number_the_trainer_says_how_often(lit, tmp_path):
    callback = lit.ConstraintCallback()
    lit.trainer(tmp_path, callback, log_every_n_steps=3).fit(lit.Lit(), batches(6))
    assert callback.monitors[0].series()["kinetic[0]"].shape == (1, 2)
    lit.trainer(tmp_path, callback, log_every_n_steps=0).fit(lit.Lit(), batches(6))
    assert callback.monitors[0].series() == {}


def test_the_monitor_sees_gradients_and_weights_that_belong_together(lit, tmp_path):
    """Its records are those of a plain loop that records between backward and step."""
    callback = lit.ConstraintCallback(every=1)
    lit.trainer(tmp_path, callback).fit(lit.Lit(), batches())
    module = lit.Lit()
    optimizer = module.configure_optimizers()
    monitor = cl.diagnostics.Monitor(optimizer)
    for batch in batches():
        optimizer.zero_grad()
        module.training_step(batch, 0).backward()
        monitor.record()
        optimizer.step()
    for name in ("work", "kinetic", "violation"):
        theirs, ours = ([r[name] for r in each._records[0][1:]] for each in (monitor, callback.monitors[0]))
        assert len(ours) == len(theirs) > 3
        assert torch.equal(torch.stack(ours), torch.stack(theirs))


@pytest.mark.parametrize(("accumulated", "steps"), [(1, 6), (2, 3)])
def test_schedules_and_samples_count_steps_of_the_optimizer(lit, tmp_path, accumulated, steps):
    module = lit.Lit()
    callback = lit.ConstraintCallback(
        schedules=lambda optimizer: [
            cl.schedules.Linear(optimizer, 6, end=0.0),
            cl.schedules.Linear(optimizer, 6, end=2.0, option="friction"),
        ],
        samples=lambda module: cl.Samples(module.net),
    )
    trainer = lit.trainer(tmp_path, callback, accumulate_grad_batches=accumulated)
    trainer.fit(module, batches(6))
    (group, *_) = callback.monitors[0].optimizer.param_groups
    assert group["temperature"] == pytest.approx(TEMPERATURE * (1 - steps / 6))
    assert group["friction"] == pytest.approx(1 + steps / 6)
    assert len(callback.samples) == steps
    assert torch.equal(callback.samples[-1]["0.weight"], module.net[0].weight.detach())


def test_nothing_is_collected_while_a_cyclical_schedule_explores(lit, tmp_path):
    module = lit.Lit()
    callback = lit.ConstraintCallback(
        schedules=lambda optimizer: [cl.schedules.Cyclical(optimizer, 4, explore=0.5, settle=1)],
        samples=lambda module: cl.Samples(module.net),
    )
    lit.trainer(tmp_path, callback, epochs=2).fit(module, batches(4))
    assert len(callback.samples) == 2  # the last step of either cycle


def test_manual_optimization_and_optimizers_of_others(lit, tmp_path):
    module = lit.Manual()
    callback = lit.ConstraintCallback(every=1, samples=lambda module: cl.Samples(module.net, every=2))
    trainer = lit.trainer(tmp_path, callback)
    trainer.fit(module, batches(6))
    assert len(callback.monitors) == 1
    assert len(callback.samples) == 3
    assert callback.monitors[0].series()["kinetic[0]"].shape == (1, 6)
    assert trainer.callback_metrics.keys() >= NAMES
    assert worst_violation(module.net) < 1e-5


def test_several_optimizers_of_the_library_have_numbers_and_schedules_apart(lit, tmp_path):
    module = lit.Halves()
    callback = lit.ConstraintCallback(
        every=1, schedules=lambda optimizer: [cl.schedules.Linear(optimizer, 6, end=0.0)], samples=cl.Samples
    )
    trainer = lit.trainer(tmp_path, callback)
    trainer.fit(module, batches(6))  # the head takes 3 steps, the body 6
    head, body = (monitor.optimizer.param_groups[0]["temperature"] for monitor in callback.monitors)
    assert (head, body) == (pytest.approx(TEMPERATURE / 2), 0)
    assert len(callback.samples) == 6
    assert {"optimizer0/violation[0]", "optimizer1/violation[0]"} <= trainer.callback_metrics.keys()
    assert "violation[0]" not in trainer.callback_metrics


def test_steps_that_a_gradient_scaler_skips_do_not_count(lit, tmp_path):
    """Every second batch overflows, as float16 does."""
    from lightning.pytorch.plugins.precision import MixedPrecision

    class Overflowing(lit.Lit):
        def training_step(self, batch, number):
            return super().training_step(batch, number) * (float("inf") if number % 2 else 1.0)

    module = Overflowing()
    callback = lit.ConstraintCallback(
        every=1, schedules=lambda optimizer: [cl.schedules.Linear(optimizer, 6, end=0.0)], samples=cl.Samples
    )
    plugin = MixedPrecision("16-mixed", "cpu", scaler=torch.amp.GradScaler("cpu", init_scale=8.0))
    lit.trainer(tmp_path, callback, plugins=[plugin]).fit(module, batches(6))
    assert callback.monitors[0].optimizer.param_groups[0]["temperature"] == pytest.approx(TEMPERATURE / 2)
    assert len(callback.samples) == 3
    assert worst_violation(module.net) < 1e-5


def test_bfloat16_mixed_precision(lit, tmp_path):
    module = lit.Lit()
    callback = lit.ConstraintCallback(every=1)
    trainer = lit.trainer(tmp_path, callback, precision="bf16-mixed")
    trainer.fit(module, batches(6))
    assert module.net[0].weight.dtype == torch.float32
    assert float(trainer.callback_metrics["violation[3]"]) < 1e-6


def test_a_splitting_with_several_gradients_is_one_step_and_one_record(lit, tmp_path):
    module = lit.Lit(optimizer=lambda net: dynamics(net, splitting="BABO"))
    callback = lit.ConstraintCallback(every=1, samples=cl.Samples)
    lit.trainer(tmp_path, callback).fit(module, batches(6))
    assert len(callback.samples) == 6
    assert callback.monitors[0].series()["kinetic[0]"].shape == (1, 6)


def test_hooks_are_removed_after_a_training(lit, tmp_path):
    module = lit.Lit()
    callback = lit.ConstraintCallback(samples=cl.Samples)
    lit.trainer(tmp_path, callback).fit(module, batches(6))
    callback.monitors[0].optimizer.step()
    assert len(callback.samples) == 6

    class Failing(lit.Lit):
        def training_step(self, batch, number):
            if number == 2:
                raise RuntimeError("on purpose")
            return super().training_step(batch, number)

    module = Failing()
    callback = lit.ConstraintCallback(samples=cl.Samples)
    with pytest.raises(RuntimeError, match="on purpose"):
        lit.trainer(tmp_path, callback).fit(module, batches(6))
    callback.monitors[0].optimizer.step()
    assert len(callback.samples) == 2


def test_the_other_package_of_lightning(lit, tmp_path):
    import pytorch_lightning

    class Other(pytorch_lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = lit.Lit()

        def training_step(self, batch, number):
            return self.inner.training_step(batch, number)

        def configure_optimizers(self):
            return dynamics(self.inner.net)

    trainer = lit.trainer(tmp_path, lit.ConstraintCallback(every=1), module=pytorch_lightning)
    trainer.fit(Other(), batches(6))
    assert trainer.callback_metrics.keys() >= NAMES


# ---- errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [0, -1, 1.5, True])
def test_a_number_of_steps_out_of_range(lit, every):
    with pytest.raises(
        ValueError, match=f"every={every}: must be a whole number of steps, at least 1, or None"
    ):
        lit.ConstraintCallback(every=every)


def test_a_module_without_an_optimizer_of_the_library(lit, tmp_path):
    module = lit.Lit(optimizer=lambda net: torch.optim.Adam(net.parameters()))
    with pytest.raises(cl.ConstraintError, match="the module has Adam, none of this library"):
        lit.trainer(tmp_path, lit.ConstraintCallback()).fit(module, batches())


def test_samples_of_another_model(lit, tmp_path):
    callback = lit.ConstraintCallback(samples=lambda _: cl.Samples(torch.nn.Linear(2, 2)))
    with pytest.raises(
        cl.ConstraintError, match="samples: no optimizer of this library moves a weight of their"
    ):
        lit.trainer(tmp_path, callback).fit(lit.Lit(), batches())
