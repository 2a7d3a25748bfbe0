import pytest
import torch

import colangevin as cl
from colangevin.experiments.catalogue.problems import ByteProblem
from colangevin.experiments.catalogue.source_code import (
    ADAM_ROWS,
    ADAMW,
    METHODS,
    MUON,
    ROWS,
    SGD_ORTHOGONAL,
)
from colangevin.experiments.training.decoder_optimizer import decoder_optimizer
from colangevin.experiments.training.network_training import NetworkTraining
from colangevin.experiments.training.optimizer_pair import OptimizerPair, constrained_among

CPU = torch.device("cpu")
SMALL = ByteProblem("python", 4, 16, steps=2, held_out=64, layers=1, width=16, heads=2)
ALL = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


def training(method, run=0):
    return NetworkTraining(SMALL, method, run, epochs=4, seed=0, device=CPU)


@ALL
def test_every_weight_is_in_one_group_with_its_own_rate(method):
    made = training(method)
    rates = {}
    for group in made.optimizer.param_groups:
        for weight in group["params"]:
            rates.setdefault(weight, []).append(group["initial_lr"])
    hidden = made.task.hidden(made.model)
    expected = {
        weight: [method.lr if name in hidden else SMALL.rest_rate]
        for name, weight in made.model.named_parameters()
    }
    assert rates == expected
    made.advance()
    factor = made.task.learning_rate(1, 4)
    assert all(g["lr"] == pytest.approx(factor * g["initial_lr"]) for g in made.optimizer.param_groups)


@ALL
def test_all_weights_move_and_constraints_hold(method):
    made = training(method)
    before = [weight.detach().clone() for weight in made.weights]
    norms = made.task.watch(made.model)["hidden_norm"]
    for _ in range(4):
        made.advance()
    assert not any(torch.equal(one, other) for one, other in zip(before, made.weights, strict=True))
    assert made.violation() < 1e-5
    kept = made.task.watch(made.model)["hidden_norm"] == pytest.approx(norms, rel=1e-6)
    assert kept == method.constrained


def test_decay_is_on_hidden_matrices_alone():
    for method in (ADAMW, MUON):
        made = training(method)
        hidden = made.task.hidden(made.model)
        names = {weight: name for name, weight in made.model.named_parameters()}
        for group in made.optimizer.param_groups:
            inside = {names[weight] in hidden for weight in group["params"]}
            assert inside == {group["weight_decay"] == 0.1}


def test_baselines_are_those_of_torch():
    made = [training(method).optimizer for method in (ADAMW, MUON)]
    assert [type(each.both[0]) for each in made] == [torch.optim.AdamW, torch.optim.Muon]
    assert all(type(each.both[1]) is torch.optim.AdamW for each in made)
    assert not any(constrained_among(each) for each in made)


def test_what_can_be_is_in_one_optimizer():
    assert isinstance(training(ROWS).optimizer, cl.ConstrainedMuon)
    assert isinstance(training(ADAM_ROWS).optimizer, cl.ConstrainedAdam)
    pair = training(SGD_ORTHOGONAL).optimizer
    assert isinstance(pair, OptimizerPair)
    assert [type(each) for each in constrained_among(pair)] == [cl.ConstrainedSGD]


def test_under_no_constraint_adam_of_this_library_takes_the_baselines_steps():
    """What stands beside the baselines differs from them by the constraint alone."""
    twins = []
    for kind in ("AdamW", "ConstrainedAdam"):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 4)
        groups = [{"params": list(model.named_parameters()), "constraint": cl.Free()}]
        method = type(ADAMW)("x", 0.01, kind, weight_decay=0.1)
        optimizer = decoder_optimizer(method, groups, {"weight"}, rest_rate=2e-3, seed=0)
        for number in range(5):
            model.zero_grad()
            model(torch.full((1, 4), 1.0 + number)).square().sum().backward()
            optimizer.step()
        twins.append(torch.cat([weight.detach().flatten() for weight in model.parameters()]))
    torch.testing.assert_close(*twins)


@ALL
def test_a_resumed_training_goes_on_bit_for_bit(method, tmp_path):
    whole, first = training(method), training(method)
    for _ in range(4):
        whole.advance()
    for _ in range(2):
        first.advance()
    torch.save(first.state_dict(), tmp_path / "state")
    second = training(method)
    second.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    for _ in range(2):
        second.advance()
    assert torch.equal(second.measure(), whole.measure())
    assert all(torch.equal(one, other) for one, other in zip(second.weights, whole.weights, strict=True))


def test_methods_of_a_run_start_alike_but_for_orthogonal_ones():
    starts = [[weight.detach().clone() for weight in training(method).weights] for method in METHODS]
    for method, start in zip(METHODS, starts, strict=True):
        alike = all(torch.equal(one, other) for one, other in zip(start, starts[0], strict=True))
        assert alike == (method.hidden != "orthogonal")


def test_bits_are_the_loss_to_the_base_two():
    made = training(ADAMW)
    made.advance()
    measured = dict(zip(made.task.curves, made.measure().flatten().tolist(), strict=True))
    assert measured["test_loss"] == pytest.approx(measured["test_bits"] * 0.6931471805599453)
    assert measured["validation_bits"] < 8
