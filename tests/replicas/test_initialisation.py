"""The initial weights of a replica depend on the seed and its number alone."""

import torch

import colangevin as cl
from tests.replicas.models import N, assert_same, mlp, weights


def test_a_replica_does_not_depend_on_how_many_there_are():
    few, many = cl.Replicas(mlp, 2, seed=7), cl.Replicas(mlp, 5, seed=7)
    assert_same(weights(few[1]), weights(many[1]))
    first = many.get_parameter("0.weight")
    assert all(not torch.equal(first[i], first[j]) for i in range(5) for j in range(i))
    assert not torch.equal(first, cl.Replicas(mlp, 5, seed=8).get_parameter("0.weight"))


def test_constrained_replicas_do_not_depend_on_how_many_there_are():
    few, many = cl.Replicas(mlp, 2, seed=7), cl.Replicas(mlp, 5, seed=7)
    for replicas in (few, many):
        replicas.constrain({"*.weight": cl.Orthogonal()})
    assert_same(weights(few[1]), weights(many[1]))
    weight = many.get_parameter("2.weight")
    assert not torch.equal(weight[0], weight[1])


def test_torchs_generator_is_left_as_it_was():
    before = torch.get_rng_state()
    cl.Replicas(mlp, N, seed=0).constrain({"*.weight": cl.Orthogonal()})
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_seed_torchs_generator_gives_one():
    seeds = []
    for _ in range(2):
        torch.manual_seed(5)
        replicas = cl.Replicas(mlp, 2)
        seeds.append(replicas.seed)
        assert_same(weights(replicas), weights(cl.Replicas(mlp, 2, seed=replicas.seed)))
    assert seeds[0] == seeds[1]
