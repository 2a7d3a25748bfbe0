"""Averages by callbacks of Lightning: on the constraints where they are used, else as they were."""

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.integrations.small_training import (
    LIGHTNING_WARNINGS,
    RULES,
    batches,
    dynamics,
    same,
    weights,
    worst_violation,
)

pytestmark = [
    *LIGHTNING_WARNINGS,
    # of torch's SWALR, which Lightning starts in the middle
    pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step\\(\\)` before"),
]

#: far above rounding, far below what an average violates here
FEASIBLE = 1e-5


def of_average(seen):
    """The largest violation by the weights of a validation."""
    return max(constraint.violation(seen[name]) for name, constraint in RULES.items())


def train(lit, folder, *callbacks, epochs=3, kind="Validated", **options):
    # so large a temperature that averages are far from the constraints
    module = getattr(lit, kind)(optimizer=lambda net: dynamics(net, temperature=0.1))
    trainer = lit.trainer(folder, *callbacks, epochs=epochs, **options)
    trainer.fit(module, batches(6))
    return module, trainer


@pytest.mark.parametrize("options", [{}, {"decay": 0.8}], ids=["mean", "exponential"])
def test_a_running_average_is_validated_and_returned_on_the_constraints(lit, tmp_path, options):
    from lightning.pytorch.callbacks import EMAWeightAveraging, WeightAveraging

    averaging = EMAWeightAveraging if options else WeightAveraging
    alone, _ = train(lit, tmp_path, averaging(**options))
    assert worst_violation(alone.net) > 100 * FEASIBLE  # what this is about
    module, trainer = train(lit, tmp_path, averaging(**options), lit.ConstraintCallback())
    assert worst_violation(module.net) < FEASIBLE
    assert [of_average(seen) < FEASIBLE for seen in module.seen] == [True] * len(module.seen)
    assert len(module.seen) > 3
    # the projection of what the training without the callback returns: averages and weights went on as there
    cl.project_(alone.net, trainer.callbacks[-1].monitors[0].optimizer.param_groups)
    assert same(weights(alone), weights(module))


def test_validating_an_average_leaves_the_training_alone(lit, tmp_path):
    from lightning.pytorch.callbacks import WeightAveraging

    class Last(lit.ConstraintCallback):
        def on_train_epoch_end(self, trainer, module):
            self.last = weights(module)

    ours, without = Last(), Last()
    train(lit, tmp_path, WeightAveraging(), ours)
    train(lit, tmp_path, without, kind="Lit")
    assert same(ours.last, without.last)


def test_the_average_in_a_checkpoint_is_not_projected(lit, tmp_path):
    """So a resumed training averages on; what it returns is the same bit for bit."""
    from lightning.pytorch.callbacks import WeightAveraging

    def run(folder, epochs, resume=None, seed=0):
        module = lit.Validated(seed, optimizer=lambda net: dynamics(net, temperature=0.1))
        callbacks = [WeightAveraging(), lit.ConstraintCallback(), lit.Saving(folder)]
        trainer = lit.trainer(folder, *callbacks, epochs=epochs)
        trainer.fit(module, batches(6), ckpt_path=resume)
        return module

    whole = run(tmp_path / "a", 4)
    run(tmp_path / "b", 2)
    rest = run(tmp_path / "c", 4, resume=tmp_path / "b" / "2.ckpt", seed=9)
    assert same(weights(whole), weights(rest))


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "BatchNorm"])
def test_a_stochastic_weight_average(lit, tmp_path, norm):
    from lightning.pytorch.callbacks import StochasticWeightAveraging

    class Normed(lit.Lit):
        """Remembers the violation at which the statistics of BatchNorm were renewed."""

        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.norm = nn.BatchNorm1d(3) if norm else nn.Identity()
            self.violations = []

        def training_step(self, batch, _):
            x, y = batch
            self.violations.append(worst_violation(self.net))
            return nn.functional.cross_entropy(self.norm(self.net(x)), y)

    def run(*callbacks):
        module = Normed(optimizer=lambda net: dynamics(net, temperature=0.1))
        averaging = StochasticWeightAveraging(swa_lrs=0.1, swa_epoch_start=1, annealing_epochs=1)
        lit.trainer(tmp_path, averaging, *callbacks, epochs=4).fit(module, batches(6))
        return module, averaging._average_model.net

    if norm:  # Lightning takes a step after the transfer
        with pytest.raises(cl.InfeasibleError, match="not orthonormal"):
            run()
    else:
        assert worst_violation(run()[0].net) > 100 * FEASIBLE
    callback = lit.ConstraintCallback()
    module, average = run(callback)
    assert worst_violation(module.net) < FEASIBLE
    assert max(module.violations) < FEASIBLE
    assert len(module.violations) == 24 + 6 * norm
    assert worst_violation(average) > 100 * FEASIBLE
    cl.project_(average, callback.monitors[0].optimizer.param_groups)
    assert same(weights(average), weights(module.net))
    assert callback.state_dict()["optimizers"][0]["steps"] == 24


def test_a_training_without_a_last_epoch(lit, tmp_path):
    from lightning.pytorch.callbacks import StochasticWeightAveraging

    averaging = StochasticWeightAveraging(swa_lrs=0.1, swa_epoch_start=1, annealing_strategy="linear")
    module, _ = train(lit, tmp_path, averaging, lit.ConstraintCallback(), epochs=-1, max_steps=24)
    assert worst_violation(module.net) < FEASIBLE


def test_averages_must_come_before_their_projection(lit, tmp_path):
    from lightning.pytorch.callbacks import EMAWeightAveraging

    with pytest.raises(
        cl.ConstraintError,
        match=r"EMAWeightAveraging comes after ConstraintCallback.*Put ConstraintCallback last",
    ):
        train(lit, tmp_path, lit.ConstraintCallback(), EMAWeightAveraging())


def test_torch_is_not_asked_for_random_numbers_by_a_projection(lit, tmp_path):
    from lightning.pytorch.callbacks import WeightAveraging

    states = []
    for callbacks in ([WeightAveraging()], [WeightAveraging(), lit.ConstraintCallback()]):
        torch.manual_seed(0)
        train(lit, tmp_path, *callbacks)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)
