"""Fused steps of Adam are those of plain torch, to rounding."""

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.step import plan
from tests.kernels.beside_plain import LIES, LOOSE, OPTIMIZERS, assert_close, run, take_steps

CONSTRAINTS = {
    "free": (cl.Free(), "AdamLineMover"),
    "circle": (cl.Circle(0.8), "AdamLineMover"),
    "sphere": (cl.Sphere(2.0, slack=False), "AdamSphereMover"),
    "ball": (cl.Sphere(2.0), "AdamSphereMover"),
    "kept columns": (cl.Sphere(over="columns"), "AdamSphereMover"),
    "columns with slack": (cl.Sphere(9.0, over="columns"), "AdamSphereMover"),
    "kept matrix": (cl.Sphere(over="matrix"), "AdamSphereMover"),
    "rows of a transposed weight": (cl.Sphere(transposed=1), "AdamSphereMover"),
}
COARSE = {torch.float32: LOOSE, torch.bfloat16: 1.6e-2, torch.float16: 4e-3}


@pytest.mark.parametrize("lies", ["contiguous", "channels last", "transposed"])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("dtype", COARSE, ids=str)
def test_every_constraint(monkeypatch, device, constraint, lies, dtype):
    held, mover = CONSTRAINTS[constraint]
    shape, lie = LIES[lies]
    options = {"lies": lie, "dtype": dtype, "tolerance": COARSE[dtype]}
    assert_close(monkeypatch, mover, held, OPTIMIZERS["Adam"], shape, device, **options)


@pytest.mark.parametrize("shape", [(1,), (3,), (63,), (65,), (129, 1), (1, 130), (3, 66), (2, 64)], ids=str)
@pytest.mark.parametrize("constraint", ["free", "circle", "ball"])
def test_ugly_sizes(monkeypatch, device, constraint, shape):
    held, mover = CONSTRAINTS[constraint]
    assert_close(monkeypatch, mover, held, OPTIMIZERS["Adam"], shape, device, tolerance=LOOSE)


@pytest.mark.parametrize("constraint", ["free", "circle", "sphere", "ball"])
@pytest.mark.parametrize(
    "options",
    [
        {"maximize": True},
        {"betas": (0.0, 0.5), "eps": 1e-3},
        {"betas": (0.95, 0.9), "weight_decay": 3.0},
        {"weight_decay": torch.tensor(0.5)},
    ],
    ids=str,
)
def test_options(monkeypatch, device, constraint, options):
    held, mover = CONSTRAINTS[constraint]
    assert_close(
        monkeypatch,
        mover,
        held,
        lambda groups: cl.ConstrainedAdam(groups, torch.tensor(0.02), **options),
        (9, 8),
        device,
        tolerance=LOOSE,
    )


@pytest.mark.parametrize("constraint", ["circle", "sphere", "ball"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_weights_that_others_wrote(monkeypatch, device, constraint, dtype):
    held, mover = CONSTRAINTS[constraint]
    edit = {"sphere": lambda weight: weight.data.copy_(-weight)}.get(
        constraint, lambda weight: weight.data.mul_(0.5)
    )
    options = {"edit": edit, "dtype": dtype, "tolerance": COARSE[dtype]}
    assert_close(monkeypatch, mover, held, OPTIMIZERS["Adam"], (5, 40), device, **options)


def test_circles_with_a_radius_for_each_entry(monkeypatch, device):
    held = cl.Circle(torch.linspace(0.5, 1.5, 7))
    assert_close(monkeypatch, "AdamLineMover", held, OPTIMIZERS["Adam"], (12, 7), device, tolerance=LOOSE)


@pytest.mark.parametrize("own", [False, True], ids=["shared numbers", "numbers of their own"])
def test_replicas_are_moved_apart(monkeypatch, device, own):
    def moved(fuse: bool) -> list[torch.Tensor]:
        constraints = [cl.Free(), cl.Circle(1.0), cl.Sphere(5.0), cl.Sphere(), cl.Sphere(over="columns")]
        torch.manual_seed(0)
        weights = [nn.Parameter((0.1 * torch.randn(3, 4, 6)).to(device)) for _ in constraints]
        numbers = {"lr": 0.01, "weight_decay": 0.1}
        if own:
            numbers = {"lr": torch.tensor([0.01, 0.02, 0.03]), "weight_decay": torch.tensor([0.1, 0.3, 0.5])}
        optimizer = cl.ConstrainedAdam(
            [
                {"params": [weight], "constraint": constraint, "replicas": 3}
                for weight, constraint in zip(weights, constraints, strict=True)
            ],
            **{key: value.to(device) if own else value for key, value in numbers.items()},
        )
        with monkeypatch.context() as patch:
            if not fuse:
                patch.setattr(plan, "family", lambda entry, dynamics: None)
            for k in range(3):
                for weight in weights:
                    weight.grad = torch.linspace(-1, 2 + k, weight.numel()).view_as(weight).to(device)
                optimizer.step()
            assert bool(optimizer._plan.hosted) != fuse
        return [weight.detach() for weight in weights]

    for ours, oracle in zip(moved(True), moved(False), strict=True):
        torch.testing.assert_close(ours, oracle, rtol=0, atol=LOOSE)


def test_groups_with_numbers_of_their_own_move_in_the_same_launches(monkeypatch, device):
    def moved(fuse: bool) -> tuple[list[torch.Tensor], int]:
        torch.manual_seed(0)
        weights = [nn.Parameter((0.1 * torch.randn(5, 6)).to(device)) for _ in range(6)]
        held = [cl.Free(), cl.Circle(0.9), cl.Sphere()] * 2
        groups = [
            {
                "params": [weight],
                "constraint": constraint,
                "lr": 0.01 * k,
                "betas": (0.1 * k, 0.9),
                "eps": 0.1**k,
            }
            for k, (weight, constraint) in enumerate(zip(weights, held, strict=True), 1)
        ]
        optimizer = cl.ConstrainedAdam(groups, 0.1)
        with monkeypatch.context() as patch:
            if not fuse:
                patch.setattr(plan, "family", lambda entry, dynamics: None)
            for k in range(4):
                for weight in weights:
                    weight.grad = torch.linspace(-1, 2 + k, 30).view_as(weight).to(device)
                if k == 2:
                    optimizer.param_groups[1]["betas"] = (0.5, 0.6)
                optimizer.step()
        return [weight.detach() for weight in weights], len(optimizer._plan.watching)

    ours, launches = moved(True)
    assert launches == 2
    for mine, oracle in zip(ours, moved(False)[0], strict=True):
        torch.testing.assert_close(mine, oracle, rtol=0, atol=LOOSE)


def test_vectors_among_the_matrices_of_muon(monkeypatch, device):
    assert_close(
        monkeypatch,
        "AdamLineMover",
        cl.Free(),
        lambda groups: cl.ConstrainedMuon(groups, 0.02, adam_betas=(0.5, 0.9)),
        (70,),
        device,
        tolerance=LOOSE,
    )


def test_free_weights_follow_adamw(device):
    start = torch.linspace(-1, 1, 300)
    ours, theirs = nn.Parameter(start.to(device)), nn.Parameter(start.to(device))
    options = {"betas": (0.9, 0.99), "weight_decay": 0.1}
    optimizers = [cl.ConstrainedAdam([ours], 0.01, **options), torch.optim.AdamW([theirs], 0.01, **options)]
    draw = torch.Generator().manual_seed(0)
    for _ in range(20):
        ours.grad = torch.randn(300, generator=draw).to(device)
        theirs.grad = ours.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    assert optimizers[0]._plan.watching
    torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=0, atol=1e-6)
    assert int(optimizers[0].state[ours]["step"]) == 20


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("constraint", ["free", "circle", "sphere", "ball"])
def test_a_bad_gradient_moves_nothing_it_touches_and_is_reported(device, constraint, bad):
    held, _ = CONSTRAINTS[constraint]
    weight = nn.Parameter(held.init_(0.1 * torch.randn(4, 6), init="nearest").to(device))
    optimizer = cl.ConstrainedAdam([{"params": [("w", weight)], "constraint": held}], 0.1)
    weight.grad = torch.full_like(weight, 0.1)
    weight.grad[0, 0] = bad
    before = weight.detach().clone()
    optimizer.step()
    state = optimizer.state[weight]
    assert bool(weight.isfinite().all())
    assert all(bool(each.isfinite().all()) for each in state.values())
    assert weight[0, 0] == before[0, 0]
    assert not torch.equal(weight.detach()[1:], before[1:])
    weight.grad = torch.zeros_like(weight)
    with pytest.raises(cl.NonFiniteError, match=r"parameter 'w' \(4, 6\): its gradient held NaN or Inf"):
        take_steps(optimizer, 12, device)


@pytest.mark.parametrize("size", [1e-30, 1e10, 1e30])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_gradients_of_any_size_leave_the_weight_where_it_is_held(device, constraint, size):
    held, _ = CONSTRAINTS[constraint]
    result, _ = run(
        held, lambda groups: cl.ConstrainedAdam(groups, 0.1, eps=1e-30), (6, 5), device, size=size
    )
    assert all(bool(each.isfinite().all()) for key, each in result.items() if key != "second_moment")
    if constraint in ("circle", "sphere", "ball"):
        assert held.violation(result["weight"]) <= 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_step_never_waits_for_the_device_and_replays_from_a_graph(constraint, waiting_is_an_error):
    device = torch.device("cuda")
    held, _ = CONSTRAINTS[constraint]

    def build() -> tuple[nn.Parameter, torch.optim.Optimizer]:
        torch.manual_seed(0)
        weight = 0.1 * torch.randn(6, 5, 3, 3)
        if not (isinstance(held, cl.Sphere) and held.radius is None):
            held.init_(weight, init="nearest")
        parameter = nn.Parameter(weight.to(device, memory_format=torch.channels_last))
        parameter.grad = torch.ones_like(parameter)
        lr = torch.tensor(0.01, device=device)
        optimizer = cl.ConstrainedAdam([{"params": [parameter], "constraint": held}], lr, weight_decay=0.1)
        optimizer.step()
        torch.cuda.synchronize()
        return parameter, optimizer

    (ours, captured), (theirs, eager) = build(), build()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured.step()
    with waiting_is_an_error:
        for k in range(3):
            for optimizer in (captured, eager):
                optimizer.param_groups[0]["lr"].fill_(0.01 * (1 + k))
            graph.replay()
            eager.step()
    torch.cuda.synchronize()
    assert torch.equal(ours, theirs)
    assert int(captured.state[ours]["step"]) == 4


@pytest.mark.parametrize("constraint", ["free", "circle"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_alone_move_bit_for_bit_as_among_others(device, constraint, dtype):
    """As the parts of a sharded weight do, of any length and beginning at any place."""
    held, _ = CONSTRAINTS[constraint]
    whole, gradients = (0.5 - torch.rand(12, 31)).to(dtype), torch.randn(3, 12, 31).to(dtype)

    def moved(rows: slice) -> torch.Tensor:
        weight = nn.Parameter(whole[rows].to(device, copy=True))
        optimizer = cl.ConstrainedAdam([{"params": [weight], "constraint": held}], 0.02, weight_decay=0.1)
        for gradient in gradients:
            weight.grad = gradient[rows].to(device, copy=True)
            optimizer.step()
        assert [type(each).__name__ for each in optimizer._plan.movers] == ["AdamLineMover"]
        return weight.detach()

    expected = moved(slice(0, 12))
    for rows in (slice(3, 10), slice(11, 12), slice(0, 4)):
        assert torch.equal(moved(rows), expected[rows])
