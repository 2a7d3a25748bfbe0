"""`Sphere()`: the norms that a weight has at the start are kept, also by the run that goes on from it."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.optim_db import assert_identical, snapshot

OVER = {"rows": 1, "columns": 0, "matrix": (0, 1)}
OPTIMIZERS = {
    "CoLod": lambda groups: cl.CoLod(groups, 0.02, temperature=0.01, seed=3),
    "CoLud": lambda groups: cl.CoLud(groups, 0.1, friction=1.0, temperature=0.01, seed=3),
    "ConstrainedSGD": lambda groups: cl.ConstrainedSGD(groups, 0.1, momentum=0.9),
}


def network(seed: int, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 3)).to(dtype)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=g).to(parameter.dtype)
        optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("slack", [True, False])
@pytest.mark.parametrize("init", ["auto", "keep", "nearest"])
def test_a_weight_starts_as_it_is(dtype, over, slack, init):
    model = network(0, dtype)
    before = copy.deepcopy(model.state_dict())
    cl.constrain(model, {"*weight": cl.Sphere(slack=slack, over=over)}, init=init)
    assert_identical(dict(before), dict(model.state_dict()))


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_norms_stay(over, kind):
    model = network(0)
    before = [layer.weight.detach().norm(dim=OVER[over]) for layer in (model[0], model[2])]
    groups = cl.constrain(model, {"0.weight": cl.Sphere(over=over), "2.weight": cl.Sphere(over=over)})
    train(model, OPTIMIZERS[kind](groups), 20, seed=1)
    for norms, layer in zip(before, (model[0], model[2]), strict=True):
        assert torch.allclose(layer.weight.norm(dim=OVER[over]), norms, rtol=1e-5)


def test_each_weight_has_its_own_group_and_prints_as_it_was_written():
    groups = cl.constrain(network(0), {"*weight": cl.Sphere()})
    assert [len(group["params"]) for group in groups] == [1, 3, 1, 1]
    assert str(groups).count("Sphere(radius=None, slack=False)") == 3
    assert groups[0]["constraint"].radius.shape == (4,)
    assert groups[0]["constraint"] != groups[2]["constraint"]


def test_without_a_radius_slack_is_asked_for():
    assert not cl.Sphere().slack
    assert cl.Sphere(None, True).slack
    assert cl.Sphere(1.0).slack
    assert not cl.Sphere(1.0, False).slack


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("first", ["model", "optimizer"])
def test_a_resumed_run_keeps_the_norms_of_the_first(over, kind, first, tmp_path):
    """From weights of another seed, or from those that were saved, whose norms are rounded."""
    rules = {"*weight": cl.Sphere(over=over)}
    model = network(0)
    optimizer = OPTIMIZERS[kind](cl.constrain(model, rules))
    train(model, optimizer, 5, seed=1)
    torch.save((model.state_dict(), optimizer.state_dict()), tmp_path / "run.pt")
    train(model, optimizer, 5, seed=2)

    weights, state = torch.load(tmp_path / "run.pt", weights_only=True)
    again = network(7)
    if first == "model":
        again.load_state_dict(weights)
    resumed = OPTIMIZERS[kind](cl.constrain(again, rules))
    if first == "optimizer":
        again.load_state_dict(weights)
    resumed.load_state_dict(state)
    train(again, resumed, 5, seed=2)
    assert_identical(snapshot(optimizer), snapshot(resumed))


def test_a_copy_and_a_pickle_keep_the_norms():
    model = network(0)
    optimizer = OPTIMIZERS["CoLud"](cl.constrain(model, {"*weight": cl.Sphere()}))
    copied = copy.deepcopy(optimizer)
    assert copied.param_groups[0]["constraint"] == optimizer.param_groups[0]["constraint"]


def test_a_checkpoint_of_another_constraint_is_refused():
    model = network(0)
    kept = OPTIMIZERS["CoLud"](cl.constrain(model, {"0.weight": cl.Sphere()}))
    given = OPTIMIZERS["CoLud"](cl.constrain(model, {"0.weight": cl.Sphere(9.0, slack=False)}))
    columns = OPTIMIZERS["CoLud"](cl.constrain(model, {"0.weight": cl.Sphere(over="columns")}))
    with pytest.raises(cl.ConstraintError, match=r"saved under Sphere\(radius=9.0, slack=False\)"):
        kept.load_state_dict(given.state_dict())
    with pytest.raises(cl.ConstraintError, match=r"the optimizer holds it under Sphere\(radius=9.0"):
        given.load_state_dict(kept.state_dict())
    with pytest.raises(cl.ConstraintError, match=r"over='columns', kept=True"):
        kept.load_state_dict(columns.state_dict())


def test_a_group_of_one_parameter_needs_no_rules():
    weight = nn.Parameter(torch.randn(4, 3))
    norms = weight.detach().norm(dim=1)
    optimizer = cl.CoLod([{"params": [weight], "constraint": cl.Sphere()}], 0.1)
    assert torch.allclose(optimizer.param_groups[0]["constraint"].radius, norms)


def test_a_group_of_several_is_refused():
    weights = [nn.Parameter(torch.randn(4, 3)) for _ in range(2)]
    with pytest.raises(cl.ConstraintError, match=r"param_groups\[0\]: takes its radius .* group of its own"):
        cl.CoLod([{"params": weights, "constraint": cl.Sphere()}], 0.1)


def test_each_replica_keeps_its_own_norms():
    replicas = cl.Replicas(lambda: nn.Linear(3, 4), 2, seed=0)
    before = replicas.weight.detach().norm(dim=2)
    optimizer = OPTIMIZERS["CoLud"](replicas.constrain({"weight": cl.Sphere()}))
    train(replicas, optimizer, 10, seed=1)
    assert torch.allclose(replicas.weight.norm(dim=2), before, rtol=1e-5)


def test_an_empty_weight_has_nothing_to_keep():
    weight = nn.Parameter(torch.zeros(0, 3))
    optimizer = cl.CoLod([{"params": [weight], "constraint": cl.Sphere()}], 0.1)
    weight.grad = torch.zeros(0, 3)
    optimizer.step()


@pytest.mark.parametrize("bad", [0.0, torch.nan, torch.inf])
def test_a_row_without_a_norm_is_refused(bad):
    layer = nn.Linear(3, 4)
    with torch.no_grad():
        layer.weight[1] = bad
    message = r"'weight' \(4, 3\): 1 rows have norm 0, NaN or Inf.*at random first, or give a radius"
    with pytest.raises(cl.InfeasibleError, match=message):
        cl.constrain(layer, {"weight": cl.Sphere()})


def test_without_a_weight_there_is_no_radius():
    assert cl.Sphere().radius is None
    with pytest.raises(
        cl.ConstraintError, match=r"radius=None stands for the norms of a weight.*give a radius"
    ):
        cl.Sphere().violation(torch.ones(2, 2))


def test_weights_of_one_norm_have_a_group_each_so_that_a_resumed_run_has_as_many() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].load_state_dict(model[0].state_dict())
    rules = {nn.Linear: cl.Sphere()}
    optimizer = cl.ConstrainedAdam(cl.constrain(model, rules), 1e-2)
    train(model, optimizer, 5, seed=1)
    resumed = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    resumed.load_state_dict(model.state_dict())
    other = cl.ConstrainedAdam(cl.constrain(resumed, rules), 1e-2)
    other.load_state_dict(optimizer.state_dict())
    train(model, optimizer, 3, seed=2)
    train(resumed, other, 3, seed=2)
    for one, two in zip(model.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize(
    "build",
    [
        lambda groups: cl.ConstrainedSGD(groups, 0.05, momentum=0.9),
        lambda groups: cl.CoLod(groups, 0.1),
        lambda groups: cl.ConstrainedAdam(groups, 0.01),
    ],
    ids=["SGD", "CoLod", "Adam"],
)
@pytest.mark.parametrize("init", ["auto", "nearest"])
def test_slices_that_start_at_their_bound_leave_it_when_the_loss_asks_for_it(
    over: str, build: Callable[..., torch.optim.Optimizer], init: str
) -> None:
    torch.manual_seed(0)
    model = nn.Linear(64, 32, bias=False)
    constraint = cl.Sphere(slack=True, over=over) if init == "auto" else cl.Sphere(0.1, over=over)
    optimizer = build(cl.constrain(model, {"weight": constraint}, init=init))
    before = model.weight.detach().norm(dim=OVER[over])
    for _ in range(300):
        optimizer.zero_grad()
        model.weight.square().sum().backward()
        optimizer.step()
    assert float((model.weight.detach().norm(dim=OVER[over]) / before).max()) < 0.9
