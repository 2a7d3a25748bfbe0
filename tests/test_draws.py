"""Weights that ranks draw are those that rank 0 would draw alone, and leave every generator as if alone."""

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import colangevin as cl
from tests.ranks import run_ranks

RULES = {"0.weight": cl.Orthogonal(), "1.weight": cl.Sphere(1.0), "2.weight": cl.Circle(0.5)}


def network():
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(3, 2))


def by_constrain():
    model = network()
    cl.constrain(model, RULES, init="draw")
    return [model[i].weight.detach() for i in range(3)]


def by_init_():
    return [constraint.init_(torch.zeros(3, 5), init="draw") for constraint in RULES.values()]


def by_replicas():
    replicas = cl.Replicas(network, 2)
    replicas.constrain(RULES, init="draw")
    return [weight.detach() for weight in replicas.parameters()]


DRAWS = [by_constrain, by_init_, by_replicas]


def drawn(rank, draw, seed):
    torch.manual_seed(seed + rank)
    return draw(), torch.rand(3)


@pytest.mark.parametrize("draw", DRAWS)
def test_all_ranks_draw_what_rank_0_would_draw_alone(draw):
    answers = run_ranks(drawn, 4, draw, 7)
    for rank, (weights, after) in enumerate(answers):
        assert all(map(torch.equal, weights, drawn(0, draw, 7)[0]))
        assert torch.equal(after, drawn(rank, draw, 7)[1])


def drawn_from_one_seed(rank, draw):
    return drawn(0, draw, 7)


@pytest.mark.parametrize("draw", DRAWS)
def test_generators_that_were_alike_still_are(draw):
    (weights, after), (other_weights, other_after) = run_ranks(drawn_from_one_seed, 2, draw)
    assert all(map(torch.equal, weights, other_weights))
    assert torch.equal(after, other_after)


def stage(rank):
    """Two stages of a pipeline, two ranks each."""
    torch.manual_seed(rank)
    model = nn.ModuleDict({f"layer{rank // 2}": nn.Linear(4, 4)})
    cl.constrain(model, {"*.weight": cl.Orthogonal()}, init="draw")
    return model[f"layer{rank // 2}"].weight.detach()


def test_ranks_with_other_parameters_draw_others():
    first, second, third, fourth = run_ranks(stage, 4)
    assert torch.equal(first, second)
    assert torch.equal(third, fourth)
    assert not torch.equal(first, third)


def fails(rank):
    torch.manual_seed(rank)
    before = torch.get_rng_state()
    weight = torch.ones(3)
    with pytest.raises(cl.ConstraintError, match="has no law to draw from"):
        cl.Implicit(lambda w: w.sum().reshape(1)).init_(weight, init="draw")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(weight, torch.ones(3))


def test_a_draw_that_fails_changes_nothing():
    run_ranks(fails, 2)


# ---- after wrapping ----------------------------------------------------------------------------------


def wrapped(rank, init, start):
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    # a layout that no collective takes as it is
    model[1].weight = nn.Parameter(model[1].weight.detach().t().contiguous().t())
    if start == "zeros":  # whose polar factor is drawn
        nn.init.zeros_(model[0].weight)
    parallel = DistributedDataParallel(model)
    if start == "apart":  # as if processors had rounded differently
        with torch.no_grad():
            model[0].weight.add_(1e-6 * rank)
    rules = {"0.weight": cl.Orthogonal(), "1.weight": cl.Sphere(1.0, slack=False)}
    cl.constrain(parallel, rules, init=init)
    return [layer.weight.detach() for layer in model]


@pytest.mark.parametrize("init", ["auto", "nearest", "draw"])
@pytest.mark.parametrize("start", ["equal", "zeros", "apart"])
def test_constrain_after_wrapping_leaves_all_ranks_with_equal_matrices(init, start):
    first, second = run_ranks(wrapped, 2, init, start)
    assert all(map(torch.equal, first, second))
    assert cl.Orthogonal().violation(first[0]) < 1e-5


def ignoring(rank):
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["1.weight"])
    cl.constrain(DistributedDataParallel(model), {"*.weight": cl.Orthogonal()})
    return [layer.weight.detach() for layer in model]


def test_what_a_wrapper_leaves_to_each_rank_is_not_sent():
    (first, own), (second, other) = run_ranks(ignoring, 2)
    assert torch.equal(first, second)
    assert not torch.equal(own, other)
