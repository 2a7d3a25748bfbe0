"""ZeroRedundancyOptimizer, whose ranks move some parameters each, takes the steps of one optimizer."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import colangevin as cl
from tests.ranks import errors_of_ranks, run_ranks

RULES = {"0.weight": cl.Orthogonal(), "2.weight": cl.Circle(2.0), "4.weight": cl.Sphere(2.0)}
OPTIMIZERS = {
    "CoLud": (cl.CoLud, {"lr": 0.1, "friction": 1.0}),
    "CoLod": (cl.CoLod, {"lr": 0.1}),
    "ConstrainedSGD": (cl.ConstrainedSGD, {"lr": 0.1, "momentum": 0.9}),
}


def network():
    torch.manual_seed(1)
    layers = [nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3)]
    return nn.Sequential(*layers)


def train(model, optimizer, steps, scheduler=None):
    for step in range(steps):
        optimizer.zero_grad()
        inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
        model(inputs).square().sum().backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def weights(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(one, other):
    return all(map(torch.equal, one, other))


def redundancy_free(groups, optimizer_class, **options):
    # imported here: it warns that torch has deprecated what it uses, and ranks have imported it already
    from torch.distributed.optim import ZeroRedundancyOptimizer

    return ZeroRedundancyOptimizer(groups.names_apart(), optimizer_class, **options)


def by_zero(rank, kind, temperature, views):
    model = network()
    groups = cl.constrain(model, RULES)
    groups[1]["weight_decay"] = 0.01
    parallel = DistributedDataParallel(model)
    optimizer_class, options = OPTIMIZERS[kind]
    options = {**options, "temperature": temperature, "parameters_as_bucket_view": views}
    optimizer = redundancy_free(groups, optimizer_class, **options)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    train(parallel, optimizer, 5, scheduler)
    held = [(group["constraint"], list(group["param_names"])) for group in optimizer.param_groups]
    seeds = {group["seed"] for group in optimizer.param_groups}
    return weights(model), held, seeds, sum(len(group["params"]) for group in optimizer.optim.param_groups)


def by_one(rank, kind, temperature):
    model = network()
    groups = cl.constrain(model, RULES)
    groups[1]["weight_decay"] = 0.01
    parallel = DistributedDataParallel(model)
    optimizer_class, options = OPTIMIZERS[kind]
    optimizer = optimizer_class(groups, temperature=temperature, **options)
    train(parallel, optimizer, 5, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5))
    return weights(model)


@pytest.mark.parametrize("temperature", [0.0, 0.01])
@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(("world_size", "views"), [(2, False), (4, True)])
def test_it_trains_as_one_optimizer_does(world_size, views, kind, temperature):
    expected, *_ = run_ranks(by_one, world_size, kind, temperature)
    answers = run_ranks(by_zero, world_size, kind, temperature, views)
    constrained = [
        (group["constraint"], [name for name, _ in group["params"]])
        for group in cl.constrain(network(), RULES)
    ]
    for found, held, seeds, moved in answers:
        assert same(found, expected)
        assert held == constrained
        assert len(seeds) == 1
        assert 0 < moved < 6


def without_names(rank, temperature):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    # as many parameters as ranks, each of another shape
    model = nn.Sequential(nn.Linear(4, 6, bias=False), nn.Linear(6, 3, bias=False))
    options = {"lr": 0.1, "temperature": temperature}
    optimizer = ZeroRedundancyOptimizer(model.parameters(), cl.CoLod, **options)
    train(DistributedDataParallel(model), optimizer, 1)


def test_without_names_ranks_would_repeat_noise():
    run_ranks(without_names, 2, 0.0)
    for error in errors_of_ranks(without_names, 2, 0.1):
        with pytest.raises(
            cl.ConstraintError,
            match=r"param_groups\[0\]: rank 1 has other parameters than rank 0 and the same seed.*repeat\. "
            r"Give them with names: groups.names_apart\(\)",
        ):
            raise error


# ---- checkpoints -------------------------------------------------------------------------------------


def zero(model):
    groups = cl.constrain(model, RULES)
    optimizer = redundancy_free(groups, cl.CoLud, lr=0.1, friction=1.0, temperature=0.01)
    return DistributedDataParallel(model), optimizer


def saved(rank, path):
    model = network()
    parallel, optimizer = zero(model)
    train(parallel, optimizer, 3)
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    train(parallel, optimizer, 3)
    return weights(model)


def resumed(rank, path):
    checkpoint = torch.load(path, weights_only=False)
    model = network()
    model.load_state_dict(checkpoint["model"])
    parallel, optimizer = zero(model)
    optimizer.load_state_dict(checkpoint["optimizer"])
    train(parallel, optimizer, 3)
    return weights(model)


def test_a_saved_state_goes_on_at_any_number_of_ranks(tmp_path):
    path = tmp_path / "checkpoint.pt"
    expected, *_ = run_ranks(saved, 2, path)
    for world_size in (1, 2, 4):
        for found in run_ranks(resumed, world_size, path):
            assert same(found, expected)


def test_a_saved_state_goes_on_without_it(tmp_path):
    """In an optimizer of this library itself."""
    path = tmp_path / "checkpoint.pt"
    expected, *_ = run_ranks(saved, 2, path)
    checkpoint = torch.load(path, weights_only=False)
    model = network()
    model.load_state_dict(checkpoint["model"])
    optimizer = cl.CoLud(cl.constrain(model, RULES), 0.1, friction=1.0)
    optimizer.load_state_dict(checkpoint["optimizer"])
    train(model, optimizer, 3)
    assert all(map(torch.allclose, weights(model), expected))


# ---- names -------------------------------------------------------------------------------------------


def test_groups_with_names_apart_are_those_of_constrain():
    model = network()
    groups = cl.constrain(model, RULES)
    apart = groups.names_apart()
    assert repr(apart) == repr(groups)
    assert [each["constraint"] for each in apart] == [each["constraint"] for each in groups]
    one, other = (cl.CoLod(each, 0.1, seed=0) for each in (groups, apart))
    assert [g["param_names"] for g in one.param_groups] == [g["param_names"] for g in other.param_groups]
    assert cl.project_(model, apart) is model


def test_some_of_the_parameters_in_another_order():
    model = network()
    (group, *_) = cl.constrain(model, {"*.weight": cl.Circle(2.0)}).names_apart()
    some = dict(group, params=[model[4].weight, model[0].weight])
    optimizer = cl.CoLod([some], 0.1)
    for each in (optimizer, copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert each._names(0) == ["4.weight", "0.weight"]
        assert [name for name, *_ in cl.RunningMean(each)._parameters()] == ["4.weight", "0.weight"]
    assert list(cl.RunningMean(optimizer).weights() if False else optimizer._names(0)) == [
        "4.weight",
        "0.weight",
    ]


def test_a_pickle_of_an_earlier_version_has_none():
    optimizer = cl.CoLod(network().named_parameters(), 0.1)
    state = {key: value for key, value in optimizer.__getstate__().items() if not key.startswith("_")}
    restored = cl.CoLod.__new__(cl.CoLod)
    restored.__setstate__(state)
    assert restored._names(0) == optimizer._names(0)
    restored.step()


def test_saved_names_are_plain():
    groups = cl.constrain(nn.Linear(2, 2), {"weight": cl.Circle(2.0)}).names_apart()
    saved = cl.CoLod(groups, 0.1).state_dict()
    assert [type(group["param_names"]) for group in saved["param_groups"]] == [list, list]


def test_a_parameter_that_has_no_name():
    (group, *_) = cl.constrain(nn.Linear(2, 2), {"*": cl.Circle(2.0)}).names_apart()
    group["params"] = [nn.Parameter(torch.zeros(3))]
    with pytest.raises(
        cl.ConstraintError,
        match=r"params\[0\] of shape \(3,\): param_names has no name for it\. Call groups.names_apart\(\)",
    ):
        cl.CoLod([group], 0.1)
