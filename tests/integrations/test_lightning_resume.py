"""A Lightning training that is resumed equals one that ran through, bit for bit, above temperature 0."""

import pytest
import torch

import colangevin as cl
from tests.integrations.small_training import LIGHTNING_WARNINGS, batches, dynamics, same, weights

pytestmark = LIGHTNING_WARNINGS

#: of the schedules: longer than the training, so that the end of a resumed one tells where it was
STEPS = 24


class Run:
    """A training with all that the callback keeps."""

    def __init__(self, lit, folder, kind, *, seed, epochs, resume=None, **options):
        self.module = getattr(lit, kind)(seed)
        self.callback = lit.ConstraintCallback(
            every=4,
            schedules=lambda optimizer: [cl.schedules.Linear(optimizer, STEPS, end=0.1)],
            samples=lambda module: cl.Samples(module.net, every=3),
        )
        saving = lit.Saving(folder)
        self.trainer = lit.trainer(folder, self.callback, saving, epochs=epochs, **options)
        self.trainer.fit(self.module, batches(5), ckpt_path=resume)

    @property
    def weights(self):
        return weights(self.module)

    @property
    def temperatures(self):
        return [
            group["temperature"]
            for monitor in self.callback.monitors
            for group in monitor.optimizer.param_groups
        ]


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("kind", ["Lit", "Manual", "Halves"])
def test_a_resumed_training_is_the_same_bit_for_bit(lit, tmp_path, kind, precision):
    whole = Run(lit, tmp_path / "whole", kind, seed=0, epochs=4, precision=precision)
    half = Run(lit, tmp_path / "half", kind, seed=0, epochs=2, precision=precision)
    checkpoint = tmp_path / "half" / "2.ckpt"
    rest = Run(lit, tmp_path / "rest", kind, seed=9, epochs=4, precision=precision, resume=checkpoint)
    assert same(whole.weights, rest.weights)
    assert not same(whole.weights, half.weights)
    assert whole.temperatures == rest.temperatures != half.temperatures
    assert len(whole.callback.samples) == len(rest.callback.samples) == 6
    for name in whole.callback.samples[0]:
        assert torch.equal(whole.callback.samples.draws(name), rest.callback.samples.draws(name))
    assert metrics(whole) == metrics(rest)
    assert len(metrics(whole)) >= 20


def metrics(run):
    """What was logged last, but for counts of a solver, which reach back to the record before."""
    logged = run.trainer.callback_metrics.items()
    return {name: value for name, value in logged if "iterations" not in name and "fallbacks" not in name}


@pytest.mark.parametrize("lost", ["optimizer_states", "callbacks"])
def test_the_comparison_sees_what_is_not_restored(lit, tmp_path, lost):
    """Without the optimizer's state momenta and noise differ, without the callback's the temperature."""
    whole = Run(lit, tmp_path / "whole", "Lit", seed=0, epochs=4)
    saved = torch.load(tmp_path / "whole" / "2.ckpt", weights_only=False)
    if lost == "callbacks":
        saved["callbacks"] = {}
    else:
        module = lit.Lit()
        saved["optimizer_states"] = [dynamics(module.net).state_dict()]
    torch.save(saved, tmp_path / "lossy.ckpt")
    rest = Run(lit, tmp_path / "rest", "Lit", seed=9, epochs=4, resume=tmp_path / "lossy.ckpt")
    assert not same(whole.weights, rest.weights)


def test_samples_in_a_folder_go_on(lit, tmp_path):
    def run(folder, seed, epochs, samples, resume=None):
        module = lit.Lit(seed)
        callback = lit.ConstraintCallback(samples=lambda module: samples(module.net))
        trainer = lit.trainer(tmp_path, callback, lit.Saving(folder), epochs=epochs)
        trainer.fit(module, batches(5), ckpt_path=resume)
        return callback.samples

    whole = run(tmp_path / "a", 0, 3, lambda net: cl.Samples(net, every=2, folder=tmp_path / "whole"))
    # killed at the end of the second epoch; the checkpoint is that of the first
    run(tmp_path / "b", 0, 2, lambda net: cl.Samples(net, every=2, folder=tmp_path / "samples"))
    rest = run(
        tmp_path / "c",
        9,
        3,
        lambda net: cl.Samples.load(tmp_path / "samples", net),
        resume=tmp_path / "b" / "1.ckpt",
    )
    assert len(rest) == len(whole) == 7
    assert all(torch.equal(whole.draws(name), rest.draws(name)) for name in whole[0])


def test_a_state_that_was_loaded_to_validate_is_not_used_to_train(lit, tmp_path):
    Run(lit, tmp_path / "first", "Lit", seed=0, epochs=1)
    module = lit.Validated()
    callback = lit.ConstraintCallback(
        schedules=lambda optimizer: [cl.schedules.Linear(optimizer, STEPS, end=0.1)]
    )
    trainer = lit.trainer(tmp_path, callback, num_sanity_val_steps=0)
    trainer.validate(module, ckpt_path=tmp_path / "first" / "1.ckpt", verbose=False)
    trainer.fit(module, batches(5))
    (group, *_) = callback.monitors[0].optimizer.param_groups
    assert group["temperature"] == pytest.approx(1e-3 * (1 - 0.9 * 5 / STEPS))


# ---- errors ---------------------------------------------------------------------------------------------


def resume(lit, folder, module, **options):
    callback = lit.ConstraintCallback(**options)
    trainer = lit.trainer(folder, callback, epochs=2)
    trainer.fit(module, batches(5), ckpt_path=folder / "saved" / "1.ckpt")


def test_other_schedules_than_those_that_were_saved(lit, tmp_path):
    Run(lit, tmp_path / "saved", "Lit", seed=0, epochs=1)
    with pytest.raises(cl.ConstraintError, match="has 1 schedules of this optimizer, there are now 0"):
        resume(lit, tmp_path, lit.Lit())


def test_other_optimizers_than_those_that_were_saved(lit, tmp_path):
    Run(lit, tmp_path / "saved", "Lit", seed=0, epochs=1)
    saved = torch.load(tmp_path / "saved" / "1.ckpt", weights_only=False)
    saved["callbacks"]["ConstraintCallback"]["optimizers"] *= 2
    torch.save(saved, tmp_path / "saved" / "1.ckpt")
    with pytest.raises(cl.ConstraintError, match="has 2 optimizers of this library, the module has 1"):
        resume(lit, tmp_path, lit.Lit())
