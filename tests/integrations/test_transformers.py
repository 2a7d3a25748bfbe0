"""The real `Trainer` of transformers: it resumes bit for bit, and logs the library's numbers."""

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.integrations.small_training import dynamics, same, weights, worst_violation

#: where trainings are cut, in the middle of an epoch
CUT = 4
STEPS = 12


# ---- resuming -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"bf16": True}, {"gradient_accumulation_steps": 2}], ids=repr)
def test_a_resumed_training_is_the_same_bit_for_bit(hugging, tmp_path, arguments):
    whole = hugging.trained(tmp_path / "whole", arguments=arguments)
    half = hugging.trained(tmp_path / "half", hugging.StopAt(CUT), arguments=arguments)
    saved = tmp_path / "half" / f"checkpoint-{CUT}"
    rest = hugging.trained(tmp_path / "rest", seed=9, arguments=arguments, resume=saved)
    assert (half.state.global_step, rest.state.global_step) == (CUT, STEPS)
    assert same(weights(whole.model), weights(rest.model))
    assert not same(weights(whole.model), weights(half.model))
    assert worst_violation(rest.model.net) < 1e-5


def test_the_comparison_sees_what_is_not_restored(hugging, tmp_path):
    whole = hugging.trained(tmp_path / "whole")
    saved = tmp_path / "whole" / f"checkpoint-{CUT}"
    (saved / "optimizer.pt").unlink()
    rest = hugging.trained(tmp_path / "rest", seed=9, resume=saved)
    assert not same(weights(whole.model), weights(rest.model))


def test_an_optimizer_that_was_built_before_the_trainer_resumes_too(hugging, tmp_path):
    def run(folder, seed, resume=None):
        model = hugging.Classifier(seed)
        optimizer = dynamics(model.net)
        schedule = cl.schedules.Linear(optimizer, 2 * STEPS, end=0.1)
        return hugging.trained(folder, model=model, optimizers=(optimizer, schedule), resume=resume)

    whole = run(tmp_path / "whole", 0)
    rest = run(tmp_path / "rest", 9, tmp_path / "whole" / f"checkpoint-{CUT}")
    assert same(weights(whole.model), weights(rest.model))
    # the schedule is an LRScheduler to the trainer, which takes its steps and saves it
    temperatures = [each.optimizer.param_groups[0]["temperature"] for each in (whole, rest)]
    assert temperatures[0] == temperatures[1] == pytest.approx(1e-3 * (1 - 0.9 / 2))


def test_a_model_that_the_trainer_builds(hugging, tmp_path):
    made = hugging.trained(tmp_path, model_init=lambda: hugging.Classifier())
    assert worst_violation(made.model.net) < 1e-5


# ---- what is built --------------------------------------------------------------------------------------


def test_weight_decay_leaves_biases_and_norms_alone(hugging, tmp_path):
    made = hugging.trained(tmp_path, optimizer_cls_and_kwargs=hugging.factory(weight_decay=0.01))
    decay = {
        name: group["weight_decay"] for group in made.optimizer.param_groups for name in group["param_names"]
    }
    assert decay.keys() == dict(made.model.named_parameters()).keys()
    assert {name for name, value in decay.items() if value} == {
        name for name in decay if name.startswith("net") and name.endswith("weight")
    }


@pytest.mark.parametrize(("names", "decays"), [("weight weight", 0.01), ("weight bias", 0.0)])
def test_what_a_constraint_holds_together_stays_in_one_group(hugging, names, decays):
    """With weight decay if all of it would decay."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    first, second = names.split()
    rule = (f"0.{first}", f"1.{second}")
    rules = {rule: cl.Implicit(lambda a, b: a.square().sum() - b.square().sum())}
    build, options = hugging.constrained_optimizer(rules, cl.CoLud, lr=0.1, friction=1.0, weight_decay=0.01)
    joint = build()(model, **options).param_groups[0]
    assert joint["param_names"] == list(rule)
    assert joint["weight_decay"] == decays


def test_without_weight_decay_there_is_a_group_for_each_constraint(hugging, tmp_path):
    made = hugging.trained(tmp_path)
    constraints = [group["constraint"] for group in made.optimizer.param_groups]
    assert len(constraints) == len(set(constraints)) == 5


def test_every_option_reaches_the_optimizer(hugging, tmp_path):
    options = {"lr": 0.05, "friction": 2.0, "temperature": 0.0, "splitting": "BOA", "seed": 7}
    made = hugging.trained(tmp_path, optimizer_cls_and_kwargs=hugging.factory(**options))
    assert type(made.optimizer.optimizer) is cl.CoLud
    for group in made.optimizer.param_groups:
        found = {**group, "lr": group["initial_lr"]}  # the trainer schedules lr
        assert {name: found[name] for name in options} == options


def test_weights_that_would_be_drawn_anew_when_resuming(hugging):
    with pytest.raises(
        cl.ConstraintError, match=r"init='draw': .*Call colangevin.constrain.* and use init='auto'"
    ):
        hugging.constrained_optimizer({nn.Linear: cl.Orthogonal()}, cl.CoLod, init="draw", lr=0.1)


# ---- logging --------------------------------------------------------------------------------------------


def logged(made, name):
    """What was logged under a name, by step."""
    return {entry["step"]: entry[name] for entry in made.state.log_history if name in entry}


def run(hugging, folder, *, resume=None, arguments=None, **options):
    made = hugging.trainer(folder, arguments=arguments)
    callback = hugging.ConstraintCallback(made, **options)
    made.add_callback(callback)
    made.train(resume_from_checkpoint=None if resume is None else str(resume))
    return made, callback


def test_numbers_are_logged_beside_the_loss(hugging, tmp_path):
    made, callback = run(hugging, tmp_path)
    for number in range(5):
        assert set(logged(made, f"temperature[{number}]").values()) == {1e-3}
        assert logged(made, f"kinetic[{number}]").keys() == {3, 6, 9, 12}
        assert max(logged(made, f"violation[{number}]").values()) < 1e-5
    assert logged(made, "iterations[3]").keys() == {6, 9, 12}  # from record to record
    assert logged(made, "loss").keys() == {3, 6, 9, 12}
    assert "kinetic" in str(callback.monitor.report())


def test_logging_at_other_steps_than_the_trainer(hugging, tmp_path):
    made, _ = run(hugging, tmp_path, every=4)
    assert logged(made, "kinetic[0]").keys() == {4, 8, 12}
    assert logged(made, "loss").keys() == {3, 6, 9, 12}


def test_logging_changes_nothing_and_goes_on_after_resuming(hugging, tmp_path):
    whole, _ = run(hugging, tmp_path / "whole", every=4)
    rest, _ = run(hugging, tmp_path / "rest", every=4, resume=tmp_path / "whole" / f"checkpoint-{CUT}")
    plain = hugging.trained(tmp_path / "plain")
    assert same(weights(whole.model), weights(plain.model))
    assert logged(rest, "kinetic[0]") == logged(whole, "kinetic[0]")


def test_the_library_s_numbers_reach_tensorboard(hugging, tmp_path, monkeypatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "logs"))
    run(hugging, tmp_path / "out", arguments={"report_to": "tensorboard"})
    written = EventAccumulator(str(tmp_path / "logs")).Reload()
    assert [event.step for event in written.Scalars("train/violation[3]")] == [3, 6, 9, 12]


def test_another_librarys_optimizer(hugging, tmp_path):
    made = hugging.trainer(tmp_path, optimizer_cls_and_kwargs=(torch.optim.SGD, {"lr": 0.1}))
    made.add_callback(hugging.ConstraintCallback(made))
    with pytest.raises(TypeError, match="AcceleratedOptimizer around a SGD; must be an optimizer"):
        made.train()


@pytest.mark.parametrize("every", [0, True])
def test_a_number_of_steps_out_of_range(hugging, tmp_path, every):
    with pytest.raises(ValueError, match=f"every={every}: must be a whole number of steps, at least 1"):
        hugging.ConstraintCallback(None, every=every)
