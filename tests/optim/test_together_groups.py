"""Groups, starts, diagnostics, averages and replicas of parameters that one constraint holds together."""

import copy

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim.autoencoders import (
    BALANCED,
    BOTH,
    KINDS,
    PAIR,
    AutoEncoder,
    balanced,
    data,
    flat,
    held,
    off_balance,
    train,
)
from tests.optim_db import (
    TOLERANCES,
    assert_identical,
    by_id,
    check_feasible,
    snapshot,
)

each_kind = pytest.mark.parametrize("kind", KINDS)
NOISY = by_id("colud-BAOAB-noisy")


# ---- groups --------------------


def test_the_table_has_one_line_for_them() -> None:
    _, groups = held()
    lines = str(groups).splitlines()
    assert lines[1].split("  ")[0] == BOTH
    assert "(3, 4), (4, 3)" in lines[1]
    assert "Implicit(g=" in lines[1]
    assert lines[1].split()[-1] == "24"
    assert lines[-1] == "held: 24 of 31 weights (77.4 %)"


def test_three_pairs_share_a_line() -> None:
    model = nn.Sequential(*[AutoEncoder() for _ in range(3)])
    rules = {tuple(f"{place}.{name}" for name in PAIR): BALANCED for place in range(3)}
    line = str(cl.constrain(model, rules, init="nearest")).splitlines()[1]
    assert "{0..2}.decoder.weight x3" in line
    assert line.split()[-1] == "72"


def test_a_group_is_in_the_order_of_the_rule() -> None:
    model = AutoEncoder()
    rule = {PAIR[::-1]: cl.Implicit(lambda decoder, encoder: balanced(encoder, decoder))}
    group = cl.constrain(model, rule, init="nearest")[0]
    assert [name for name, _ in group["params"]] == list(PAIR[::-1])
    assert group["constraint"].shapes == ((4, 3), (3, 4))


def test_none_leaves_all_of_them_free() -> None:
    (group,) = cl.constrain(AutoEncoder(), {PAIR: None})
    assert group["constraint"] == cl.Free()
    assert len(group["params"]) == 4


def test_a_group_is_added_later() -> None:
    model, groups = held()
    optimizer = NOISY.build(groups[1:])
    optimizer.add_param_group(groups[0])
    train(model, optimizer, 2)
    check_feasible(optimizer)
    assert set(cl.diagnostics.violation(optimizer)) == {"encoder.bias", "decoder.bias", BOTH}


@pytest.mark.parametrize("init", ["auto", "nearest"])
def test_a_start_moves_them_together(init: str) -> None:
    model = AutoEncoder()
    before = flat(model)
    cl.constrain(model, {PAIR: BALANCED}, init=init)
    assert not torch.equal(flat(model), before)
    assert off_balance(model) < 1e-14
    at = flat(model)
    cl.constrain(model, {PAIR: BALANCED}, init="auto")
    assert torch.equal(flat(model), at), "a start that fits keeps its bits"


def test_a_start_that_only_checks_names_both_and_moves_nothing() -> None:
    model = AutoEncoder()
    before = flat(model)
    with pytest.raises(cl.InfeasibleError, match=rf"parameter '{BOTH}' \(24,\): Implicit"):
        cl.constrain(model, {PAIR: BALANCED}, init="keep")
    with torch.no_grad():
        model.encoder.weight.mul_(20)
    with pytest.raises(cl.InfeasibleError, match=r"within_two\(w\)\[\d\] = .*must be <= 0"):
        cl.constrain(model, {PAIR: KINDS["bound"]})
    with torch.no_grad():
        model.encoder.weight.div_(20)
    torch.testing.assert_close(flat(model), before, rtol=1e-15, atol=0)


# ---- diagnostics, averages --------------------


def test_diagnostics_name_them_together() -> None:
    model, groups = held()
    optimizer = NOISY.build(groups)
    monitor = cl.diagnostics.Monitor(optimizer)
    for _ in range(3):
        train(model, optimizer, 1)
        assert monitor.record()
    assert 0 < cl.diagnostics.kinetic_temperature(optimizer)[BOTH] < 1
    assert cl.diagnostics.cotangency(optimizer)[BOTH] < TOLERANCES[torch.float64]
    assert cl.diagnostics.violation(optimizer)[BOTH] < TOLERANCES[torch.float64]
    with torch.no_grad():
        model.decoder.weight.zero_()
    off = off_balance(model)
    assert cl.diagnostics.violation(optimizer)[BOTH] == pytest.approx(off)
    assert monitor.latest()["violation[0]"] < 1e-12
    assert "balanced" in str(monitor.report())


def test_project_puts_an_average_back_onto_the_constraint() -> None:
    model, groups = held()
    average = torch.optim.swa_utils.AveragedModel(model)
    with torch.no_grad():
        average.module.decoder.weight.mul_(0.9)
    average.requires_grad_(False)
    cl.project_(average, groups)
    assert off_balance(average.module) < 1e-14


def test_a_running_mean_is_on_the_constraint() -> None:
    model, groups = held()
    optimizer = NOISY.build(groups)
    mean = cl.RunningMean(optimizer)
    for _ in range(4):
        train(model, optimizer, 1)
        mean.update()
    weights = mean.weights()
    assert set(weights) == set(dict(model.named_parameters()))
    assert float(balanced(weights[PAIR[0]], weights[PAIR[1]]).abs().max()) < 1e-12
    torch.testing.assert_close(weights["encoder.bias"], mean.state_dict()["means"]["encoder.bias"])


# ---- replicas --------------------


@each_kind
def test_replicas_train_as_apart(kind: str) -> None:
    replicas = cl.Replicas(lambda: AutoEncoder(), 3, seed=1)
    groups = replicas.constrain({PAIR: KINDS[kind]}, init="nearest")
    alone = [copy.deepcopy(replicas[i]) for i in range(3)]
    optimizer = NOISY.build(groups)
    for _ in range(3):
        optimizer.zero_grad()
        replicas(data()).sub(data()).square().mean((1, 2)).sum().backward()

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = replicas(data()).sub(data()).square().mean((1, 2)).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
    check_feasible(optimizer)
    assert set(cl.diagnostics.violation(optimizer)) == {BOTH, "encoder.bias", "decoder.bias"}
    for i, model in enumerate(alone):
        own = cl.constrain(model, {PAIR: KINDS[kind]}, init="keep")
        train(model, NOISY.build([{**group, "first_replica": i} for group in own]), 3)
        torch.testing.assert_close(flat(replicas[i]), flat(model), rtol=0, atol=1e-12)


def test_replicas_go_on_from_a_checkpoint() -> None:
    replicas = cl.Replicas(lambda: AutoEncoder(), 2, seed=1)
    optimizer = cl.CoLud(
        replicas.constrain({PAIR: BALANCED}, init="nearest"), 0.1, friction=1.0, temperature=0.1, seed=2
    )

    def step(model: cl.Replicas, built: cl.CoLud) -> None:
        built.zero_grad()
        model(data()).sub(data()).square().mean().backward()
        built.step()

    step(replicas, optimizer)
    other = copy.deepcopy(replicas)
    resumed = cl.CoLud(other.constrain({PAIR: BALANCED}), 0.1, friction=1.0)
    resumed.load_state_dict(optimizer.state_dict())
    step(replicas, optimizer)
    step(other, resumed)
    assert_identical(snapshot(optimizer), snapshot(resumed))


# ---- what they can be given to --------------------


def test_a_parameter_that_is_replaced_by_one_of_another_dtype_is_followed() -> None:
    model, groups = held(BALANCED, torch.float32)
    optimizer = NOISY.build(groups)
    train(model, optimizer, 2)
    model.double()
    train(model, optimizer, 2)
    assert model.encoder.weight.dtype == optimizer.state[model.encoder.weight]["momentum"].dtype
    check_feasible(optimizer)
