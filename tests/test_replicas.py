"""``Replicas``: copies of a model as one module, equal to the copies apart."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl

N, BATCH = 3, 5


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2)
    )


def normed() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))


class Counting(nn.Module):
    """Binds a buffer anew at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        return self.linear(x) * self.calls


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.out.weight = self.into.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.into(x).relu())


class Dropped(nn.Module):
    """Drops out by the mode of the root itself."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(self.scale * x, training=self.training)


def batch(build, *lead: int, dtype: torch.dtype = torch.float32) -> Tensor:
    shape = (4,) if build in (mlp, Counting, Tied) else (1, 6, 6)
    return torch.randn(*lead, BATCH, *shape, generator=torch.Generator().manual_seed(1), dtype=dtype)


def weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


# ---- the module ----------------------------------------------------------------------------------


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


# ---- initialisation ------------------------------------------------------------------------------


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


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, -1, 2.0, True, None])
def test_n_must_be_a_positive_whole_number(n):
    with pytest.raises(cl.ConstraintError, match=r"n=.*: must be a whole number, at least 1"):
        cl.Replicas(mlp, n)


def test_seed_must_be_a_whole_number():
    with pytest.raises(cl.ConstraintError, match=r"seed=0.5: must be a whole number or None"):
        cl.Replicas(mlp, 2, seed=0.5)


def test_build_must_make_new_modules():
    with pytest.raises(TypeError, match=r"build: returned Tensor; it must return a torch.nn.Module"):
        cl.Replicas(lambda: torch.zeros(3), 2)
    model = mlp()
    with pytest.raises(TypeError, match="build: returned one module twice"):
        cl.Replicas(lambda: model, 2)


def test_build_must_make_something_that_can_differ():
    with pytest.raises(cl.ConstraintError, match="build: the model has no parameter or buffer"):
        cl.Replicas(nn.ReLU, 2)


def test_build_must_make_one_architecture():
    widths = iter([3, 4])
    with pytest.raises(
        cl.ConstraintError,
        match=r"tensor 'weight' has shape \(4, 2\) in replica 1 and \(3, 2\) in replica 0",
    ):
        cl.Replicas(lambda: nn.Linear(2, next(widths)), 2)


def test_lazy_modules_are_refused():
    with pytest.raises(
        cl.ConstraintError, match=r"parameter 'weight' has no shape yet. Run the model on one batch"
    ):
        cl.Replicas(lambda: nn.LazyLinear(2), 2)


def test_a_batch_for_each_replica_must_count_them():
    replicas = cl.Replicas(mlp, N)
    with pytest.raises(
        cl.ConstraintError, match=r"input of shape \(5, 4\) with per_replica=True: dimension 0 must be 3"
    ):
        replicas(batch(mlp), per_replica=True)


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: nn.LSTM(4, 3), "LSTM cannot run as replicas: Batching rule not implemented for aten::lstm"),
        (lambda: nn.Sequential(nn.Linear(4, 4), Branching()), "data-dependent control flow"),
        (
            lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None)),
            r"calling .item\(\) on a Tensor",
        ),
    ],
)
def test_what_cannot_be_batched_is_said(build, reason):
    replicas = cl.Replicas(build, N)
    with pytest.raises(cl.ConstraintError, match=rf"{reason}.*train the copies apart"):
        replicas(torch.randn(BATCH, 4))


def test_other_errors_of_the_model_pass_through():
    with pytest.raises(RuntimeError, match="Expected size for first two dimensions"):
        cl.Replicas(mlp, N)(torch.randn(BATCH, 3))
