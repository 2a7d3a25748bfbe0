"""Options and radii that differ between replicas: each copy trains as it would alone with its own."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.replicas.models import N, assert_same, batch, mlp, weights
from tests.replicas.training import (
    CONSTRAINTS,
    CORE,
    STEPS,
    TOLERANCES,
    assert_close,
    train_apart,
    train_together,
)


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
    """Two orthogonal weights of one shape move in one call, which stacks the copies of both."""

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
    """A schedule changes the tensor of the group in place; the next step reads the new values."""
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
