"""``Replicas`` as a module: its outputs, names, modes and copies."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.replicas.models import BATCH, Counting, N, Tied, assert_same, batch, cnn, mlp, normed, weights


class Dropped(nn.Module):
    """Drops out in its own forward, so the mode of the root decides, not that of a submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(self.scale * x, training=self.training)


@pytest.mark.parametrize("build", [mlp, cnn, normed, Tied])
def test_every_replica_computes_what_it_computes_apart(build):
    replicas = cl.Replicas(build, N, seed=0)
    shared, own = batch(build), batch(build, N)
    apart = [replicas[i] for i in range(N)]
    assert torch.allclose(replicas(shared), torch.stack([m(shared) for m in apart]), atol=1e-6)
    each = torch.stack([m(x) for m, x in zip(apart, own, strict=True)])
    assert torch.allclose(replicas(own, per_replica=True), each, atol=1e-6)
    assert each.shape[:2] == (N, BATCH)
    for i, model in enumerate(apart):
        for name, buffer in model.named_buffers():
            assert torch.allclose(buffer, replicas.get_buffer(name)[i], atol=1e-6)


def test_tensors_keep_their_names_and_gain_a_dimension():
    replicas = cl.Replicas(normed, N, seed=0)
    model = normed()
    for stacked, single in (
        (replicas.named_parameters(), model.named_parameters()),
        (replicas.named_buffers(), model.named_buffers()),
        (replicas.state_dict().items(), model.state_dict().items()),
    ):
        assert {k: v.shape for k, v in stacked} == {k: (N, *v.shape) for k, v in single}
    assert len(replicas) == N
    assert repr(replicas).startswith("Replicas(\n  n=3, seed=0")


def test_frozen_parameters_stay_frozen():
    def build() -> nn.Module:
        model = mlp()
        model[0].weight.requires_grad_(False)
        return model

    replicas = cl.Replicas(build, N)
    assert not replicas.get_parameter("0.weight").requires_grad
    assert replicas.get_parameter("0.bias").requires_grad
    assert not replicas[1][0].weight.requires_grad


def test_a_replica_is_a_plain_module_with_weights_of_its_own():
    replicas = cl.Replicas(mlp, N, seed=0)
    model = replicas[-1]
    assert type(model) is nn.Sequential
    before = weights(replicas)
    assert_same(weights(model), {name: stack[2] for name, stack in before.items()})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert_same(weights(replicas), before)
    assert len(list(replicas)) == N
    with pytest.raises(IndexError, match=r"replicas\[3\]: there are 3 replicas"):
        replicas[3]


def test_moves_copies_and_checkpoints_as_a_module():
    replicas = cl.Replicas(normed, N, seed=0)
    other = cl.Replicas(normed, N, seed=1)
    other.load_state_dict(replicas.state_dict())
    copied, pickled = copy.deepcopy(replicas), pickle.loads(pickle.dumps(replicas))
    x = batch(normed)
    expected = replicas(x)
    for each in (other, copied, pickled):
        assert torch.equal(each(x), expected)
    with torch.no_grad():
        copied.get_parameter("0.bias").add_(1)
    assert not torch.equal(copied.eval()(x), replicas.eval()(x))
    assert replicas.double()(x.double()).dtype == torch.float64
    assert replicas[0][0].weight.dtype == torch.float64


def test_a_root_with_parameters_of_its_own_moves_too():
    replicas = cl.Replicas(lambda: nn.Linear(4, 2), N, seed=0)
    replicas.to(torch.float64)
    assert replicas(batch(mlp, dtype=torch.float64)).shape == (N, BATCH, 2)
    groups = replicas.constrain({nn.Linear: cl.Circle(1.0)})
    assert [name for name, _ in groups[0]["params"]] == ["weight"]


def test_buffers_bound_anew_are_kept():
    replicas = cl.Replicas(Counting, N, seed=0)
    x = batch(Counting)
    first, second = replicas(x), replicas(x)
    assert torch.allclose(second, 2 * first)
    assert torch.equal(replicas.get_buffer("calls"), torch.full((N,), 2.0))


def test_batch_norm_in_training_and_evaluation():
    replicas = cl.Replicas(normed, N, seed=0)
    apart = list(replicas)
    for training in (True, True, False):
        replicas.train(training)
        x = batch(normed, N)
        out = replicas(x, per_replica=True)
        out.square().sum().backward()
        for i, model in enumerate(apart):
            model.train(training).zero_grad()
            one = model(x[i])
            one.square().sum().backward()
            assert torch.allclose(out[i], one, atol=1e-5)
            for name, parameter in model.named_parameters():
                grad = replicas.get_parameter(name).grad[i]
                assert torch.allclose(grad, parameter.grad, rtol=1e-4, atol=1e-4), name
            for name, buffer in model.named_buffers():
                assert torch.allclose(replicas.get_buffer(name)[i], buffer, atol=1e-6), name
        replicas.zero_grad()


def test_dropout_differs_between_replicas_and_follows_the_mode():
    replicas = cl.Replicas(Dropped, N)
    ones = torch.ones(4, 16)
    out = replicas(ones)
    assert not torch.equal(out[0], out[1])
    assert torch.equal(replicas.eval()(ones), ones.expand(N, 4, 16))
