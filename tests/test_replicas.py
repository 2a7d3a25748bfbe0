"""``Replicas``: copies of a model as one module, equal to the copies apart."""

import copy
import pickle
import time

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import colangevin as cl
from colangevin.experiments.data.spirals import two_turn_spiral
from tests.core_only import Columns, Simplex, Symmetric

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


# ---- together and apart --------------------------------------------------------------------------


def plane(weight: Tensor) -> Tensor:
    """The entries of each half of a weight sum to 0."""
    return weight.flatten().view(2, -1).sum(1)


CONSTRAINTS = {
    "free": cl.Free(),
    "circle": cl.Circle(1.0),
    "sphere": cl.Sphere(2.0),
    "sphere-equality": cl.Sphere(1.0, slack=False),
    "orthogonal": cl.Orthogonal(),
    "implicit": cl.Implicit(plane),
    "implicit-inequality": cl.Implicit(lambda w: w.square().sum() - 9, inequality=True),
}
#: with nothing but the required core; they hold matrices
CORE = {"core-symmetric": Symmetric(), "core-columns": Columns(1.5), "core-simplex": Simplex()}
METHODS = {
    "overdamped": (cl.CoLod, {"lr": 0.05, "temperature": 1e-3}),
    "underdamped": (cl.CoLud, {"lr": 0.2, "friction": 1.0, "temperature": 1e-3}),
    "sgd": (cl.ConstrainedSGD, {"lr": 0.05, "momentum": 0.8, "temperature": 1e-3}),
    "no noise": (cl.CoLud, {"lr": 0.2, "friction": 1.0, "splitting": "BAOAB"}),
}
TOLERANCES = {torch.float32: 1e-6, torch.float64: 1e-12}
STEPS = 6


def loss(outputs: Tensor) -> Tensor:
    """A loss for each run, whatever stands in front."""
    return outputs.sigmoid().flatten(-2).square().mean(-1)


def train_together(replicas: cl.Replicas, optimizer: torch.optim.Optimizer, batches: Tensor) -> None:
    for x in batches:
        optimizer.zero_grad()
        loss(replicas(x, per_replica=True)).sum().backward()
        optimizer.step()


def train_apart(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Tensor, i: int) -> None:
    for x in batches[:, i]:
        optimizer.zero_grad()
        loss(model(x)).backward()
        optimizer.step()


def assert_close(replicas: cl.Replicas, i: int, model: nn.Module, dtype: torch.dtype) -> None:
    for name, tensor in model.state_dict().items():
        worst = float((replicas.state_dict()[name][i] - tensor).abs().max())
        assert worst <= TOLERANCES[dtype], (name, i, worst)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("build", "constraint"),
    [
        *((build, name) for build in (mlp, cnn) for name in CONSTRAINTS),
        (normed, "circle"),
        *((mlp, name) for name in CORE),
    ],
)
def test_replicas_trained_together_equal_replicas_trained_apart(build, constraint, method, dtype):
    replicas = cl.Replicas(build, N, seed=3).to(dtype)
    kind, options = METHODS[method]
    # the second layer's weight, square in the MLP and wide in the CNN
    rules = {"0.weight" if build is normed else "2.weight": {**CONSTRAINTS, **CORE}[constraint]}
    optimizer = kind(replicas.constrain(rules), seed=11, **options)
    apart = list(replicas)
    batches = batch(build, STEPS, N, dtype=dtype)
    train_together(replicas, optimizer, batches)
    for i, model in enumerate(apart):
        start = weights(model)
        groups = [{**group, "first_replica": i} for group in cl.constrain(model, rules, init=False)]
        train_apart(model, kind(groups, seed=11, **options), batches, i)
        assert_close(replicas, i, model, dtype)
        moved = max(float((start[name] - w.detach()).abs().max()) for name, w in model.named_parameters())
        assert moved > 100 * TOLERANCES[torch.float32]
    assert max(cl.diagnostics.violation(optimizer).values()) <= 100 * torch.finfo(dtype).eps


def test_noise_differs_between_replicas_that_start_alike():
    stack = nn.Parameter(torch.zeros(N, 4))
    optimizer = cl.CoLod([{"params": [stack], "replicas": N}], lr=0.1, temperature=1.0, seed=0)
    stack.grad = torch.zeros(N, 4)
    optimizer.step()
    assert len(set(stack.detach().flatten().tolist())) == 4 * N


def each(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


SWEEPS = {
    "lr": (cl.CoLod, {"lr": each(0.05, 0.02, 0.0), "temperature": 1e-3}),
    "temperature": (cl.CoLod, {"lr": 0.05, "temperature": each(1e-3, 0.0, 1e-4)}),
    "weight decay": (cl.CoLod, {"lr": 0.05, "weight_decay": each(0.1, 0.0, 0.3)}),
    "underdamped": (
        cl.CoLud,
        {
            "lr": each(0.2, 0.1, 0.0),
            "friction": each(1.0, 0.0, 3.0),
            "temperature": each(0.0, 1e-3, 1e-4),
            "weight_decay": each(0.0, 0.1, 0.2),
            "splitting": "BAOAB",
        },
    ),
    "sgd": (cl.ConstrainedSGD, {"lr": each(0.05, 0.02, 0.0), "momentum": 0.8, "temperature": 1e-3}),
    "sgd temperature": (
        cl.ConstrainedSGD,
        {"lr": 0.05, "momentum": 0.8, "temperature": each(1e-3, 0.0, 1e-4)},
    ),
}


def of_replica(options: dict, i: int) -> dict:
    return {key: float(v[i]) if isinstance(v, Tensor) else v for key, v in options.items()}


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("constraint", ["free", "circle", "sphere", "orthogonal", "implicit", "core-columns"])
def test_a_sweep_is_one_model(constraint, sweep, dtype):
    replicas = cl.Replicas(mlp, N, seed=3).to(dtype)
    kind, options = SWEEPS[sweep]
    rules = {"2.weight": {**CONSTRAINTS, **CORE}[constraint]}
    optimizer = kind(replicas.constrain(rules), seed=11, **options)
    apart = list(replicas)
    batches = batch(mlp, STEPS, N, dtype=dtype)
    train_together(replicas, optimizer, batches)
    for i, model in enumerate(apart):
        groups = [{**group, "first_replica": i} for group in cl.constrain(model, rules, init=False)]
        train_apart(model, kind(groups, seed=11, **of_replica(options, i)), batches, i)
        assert_close(replicas, i, model, dtype)


@pytest.mark.parametrize(
    ("together", "apart"),
    [
        (cl.Circle(each(0.5, 1.0, 2.0).view(N, 1, 1)), cl.Circle),
        (cl.Sphere(each(2.0, 3.0, 4.0).view(N, 1)), cl.Sphere),
        (cl.Sphere(each(0.5, 1.0, 2.0).view(N, 1), slack=False), lambda r: cl.Sphere(r, slack=False)),
    ],
    ids=["circle", "sphere", "sphere-equality"],
)
def test_radii_differ_between_replicas(together, apart):
    replicas = cl.Replicas(mlp, N, seed=3)
    optimizer = cl.CoLud(
        replicas.constrain({"2.weight": together}), lr=0.2, friction=1.0, temperature=1e-3, seed=11
    )
    models = list(replicas)
    batches = batch(mlp, STEPS, N)
    train_together(replicas, optimizer, batches)
    for i, (model, radius) in enumerate(zip(models, together.radius.flatten().tolist(), strict=True)):
        groups = cl.constrain(model, {"2.weight": apart(radius)}, init=False)
        groups = [{**group, "first_replica": i} for group in groups]
        optimizer = cl.CoLud(groups, lr=0.2, friction=1.0, temperature=1e-3, seed=11)
        train_apart(model, optimizer, batches, i)
        assert_close(replicas, i, model, torch.float32)


def test_stacked_parameters_each_have_the_rates_of_their_replicas():
    """Two orthogonal weights of one shape move in one call: their copies follow one another."""

    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

    replicas = cl.Replicas(build, N, seed=3)
    lr = each(0.1, 0.0, 0.2)
    optimizer = cl.CoLod(replicas.constrain({"*.weight": cl.Orthogonal()}), lr=lr)
    before = weights(replicas)
    train_together(replicas, optimizer, batch(mlp, 1, N))
    for name, stack in replicas.state_dict().items():
        moved = [not torch.allclose(stack[i], before[name][i], atol=1e-6) for i in range(N)]
        assert moved == [True, False, True], name


def test_rates_may_change_in_place():
    """A schedule of a sweep changes the tensor of the group; the next step reads it."""
    replicas = cl.Replicas(mlp, N, seed=3)
    lr = each(0.1, 0.1, 0.1)
    optimizer = cl.CoLod(replicas.constrain({}), lr=lr)
    batches = batch(mlp, 2, N)
    train_together(replicas, optimizer, batches[:1])
    before = weights(replicas)
    optimizer.param_groups[0]["lr"][1] = 0
    train_together(replicas, optimizer, batches[1:])
    for name, stack in replicas.state_dict().items():
        assert [torch.equal(stack[i], before[name][i]) for i in range(N)] == [False, True, False]


def test_a_sweep_resumes_bit_for_bit():
    def setup() -> tuple[cl.Replicas, cl.CoLud]:
        replicas = cl.Replicas(mlp, N, seed=3)
        groups = replicas.constrain({"2.weight": cl.Circle(1.0)})
        return replicas, cl.CoLud(groups, lr=each(0.1, 0.2, 0.3), friction=1.0, temperature=1e-3, seed=0)

    batches = batch(mlp, 4, N)
    replicas, optimizer = setup()
    train_together(replicas, optimizer, batches)
    first, early = setup()
    train_together(first, early, batches[:2])
    second, late = setup()
    second.load_state_dict(first.state_dict())
    late.load_state_dict(early.state_dict())
    train_together(second, late, batches[2:])
    assert_same(weights(second), weights(replicas))


def test_kinetic_temperature_takes_every_replica_in_its_own_scale():
    stack = nn.Parameter(torch.zeros(2, 50))
    group = {"params": [("w", stack)], "replicas": 2}
    optimizer = cl.ConstrainedSGD([group], lr=each(0.5, 0.125), momentum=0.5, temperature=0.0)
    stack.grad = torch.stack((torch.full((50,), 2.0), torch.full((50,), 4.0)))
    optimizer.step()
    # p^2 = lr m^2 with m = -G after the first step: 0.5 * 4 and 0.125 * 16
    assert cl.diagnostics.kinetic_temperature(optimizer) == {"w": pytest.approx(2.0)}


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


# ---- speed ---------------------------------------------------------------------------------------


def shlp() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 500), nn.ReLU(), nn.Linear(500, 1), nn.Flatten(0))


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 5e-5])
def test_a_hundred_runs_together_are_five_times_as_fast(temperature, capsys):
    """C-SGD and C-SGLD on the 2-turn spiral: 50 steps of 2 points, for 100 runs and for 5 of them alone."""
    runs, alone = 100, 5
    rules = {"0.weight": cl.Circle(1.0), "2.weight": cl.Circle(5.0)}
    data = [two_turn_spiral(100, generator=torch.Generator().manual_seed(i)) for i in range(runs)]
    points, labels = (torch.stack(tensors) for tensors in zip(*data, strict=True))

    def epoch(model, optimizer, x, y, **options) -> float:
        start = time.perf_counter()
        for rows in torch.arange(100).split(2):
            optimizer.zero_grad()
            logits = model(x[..., rows, :], **options)
            binary_cross_entropy_with_logits(logits, y[..., rows], reduction="sum").div(2).backward()
            optimizer.step()
        return time.perf_counter() - start

    def optimizer(groups) -> cl.CoLod:
        return cl.CoLod(groups, lr=0.05, temperature=temperature, seed=0)

    replicas = cl.Replicas(shlp, runs, seed=0)
    together = optimizer(replicas.constrain(rules))
    models = [replicas[i] for i in range(alone)]
    singles = [optimizer(cl.constrain(model, rules)) for model in models]
    seconds, apart = [], []
    for _ in range(4):  # the first warms up
        seconds.append(epoch(replicas, together, points, labels, per_replica=True))
        each = zip(models, singles, points, labels, strict=False)
        apart.append(sum(epoch(*one) for one in each) / alone * runs)
    ratio = min(apart[1:]) / min(seconds[1:])
    with capsys.disabled():
        words = f"an epoch of {runs} runs: {min(seconds):.2f} s together, {min(apart):.2f} s apart"
        print(f"\ntemperature {temperature:g}, {words}, {ratio:.1f} times")
    assert ratio >= 5
