"""Walking through a weight in blocks changes nothing: the same numbers as a step on whole tensors."""

import math

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.step import pieces, plan
from colangevin.step.blocks import Blocks
from colangevin.step.entry import Entry
from colangevin.step.plain import Plain
from tests.optim_db import OptimizerCase, by_id

# in elements; a small block makes small tensors go through many
BLOCK = 64
OPTIMIZERS = [by_id(id) for id in ("colod-noisy", "colud-BAOAB-noisy", "sgd-momentum", "sgd-noisy")]
LAYOUTS = {
    "one": [((5,), 0)],
    "many small": [((5,), 0), ((2, 3), 0), ((), 0), ((7, 9), 0), ((1,), 0)],
    "ends inside a block": [((BLOCK - 1,), 0), ((BLOCK,), 0), ((BLOCK + 1,), 0), ((3, 101), 0)],
    "small replicas": [((30, 7), 30), ((3, 5), 3)],
    "large replicas": [((3, 2, 75), 3)],
}


def run(
    optimizer: OptimizerCase, constraint: cl.Constraint, layout: str, dtype: torch.dtype
) -> tuple[list[Tensor], torch.optim.Optimizer]:
    draw = torch.Generator().manual_seed(0)
    weights, groups = [], []
    for shape, replicas in LAYOUTS[layout]:
        weight = nn.Parameter((torch.rand(shape, generator=draw, dtype=torch.float64) - 0.5).to(dtype))
        weights.append(weight)
        if not (groups and groups[-1]["replicas"] == replicas):
            groups.append({"params": [], "constraint": constraint, "replicas": replicas})
        groups[-1]["params"].append(weight)
    opt = optimizer.build(groups, weight_decay=0.1)
    for _ in range(3):
        for weight in weights:
            weight.grad = torch.randn(weight.shape, generator=draw, dtype=torch.float64).to(dtype)
        opt.step()
    return weights, opt


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda case: case.id)
@pytest.mark.parametrize("constraint", [cl.Free(), cl.Circle(0.8)], ids=repr)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_blocks_equal_whole_tensors(
    monkeypatch: pytest.MonkeyPatch, optimizer: OptimizerCase, constraint: cl.Constraint, layout: str
) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        with monkeypatch.context() as patch:
            patch.setattr(pieces, "_BLOCK", BLOCK)
            swept, opt = run(optimizer, constraint, layout, dtype)
            assert {type(mover) for mover in opt._plan.movers} == {Blocks}
        with monkeypatch.context() as patch:
            patch.setattr(plan, "walkable", lambda entry: False)
            whole, whole_opt = run(optimizer, constraint, layout, dtype)
            assert {type(mover) for mover in whole_opt._plan.movers} == {Plain}
        rounding = 8 * torch.finfo(dtype).eps
        torch.testing.assert_close(swept, whole, rtol=rounding, atol=rounding)
        for one, other in zip(swept, whole, strict=True):
            torch.testing.assert_close(
                dict(opt.state[one]), dict(whole_opt.state[other]), rtol=1e-5, atol=1e-6
            )


def test_blocks_cover_every_element_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_BLOCK", BLOCK)
    for layout in LAYOUTS.values():
        group = {"constraint": cl.Free(), "params": []}
        entries = [
            Entry(torch.zeros(shape), "w", i, 0, {**group, "replicas": replicas, "first_replica": 0})
            for i, (shape, replicas) in enumerate(layout)
        ]
        covered = [torch.zeros(entry.numel) for entry in entries]
        for block in pieces.cut(entries):
            assert sum(stop - start for _, start, stop in block) <= BLOCK
            for entry, start, stop in block:
                covered[entry.index][start:stop] += 1
        assert all(bool((count == 1).all()) for count in covered)


@pytest.mark.parametrize("layout", ["transposed", "radii", "gradient"])
def test_weights_in_another_order_take_the_other_path(layout: str) -> None:
    weight = nn.Parameter(torch.zeros(4, 3).T if layout == "transposed" else torch.zeros(3, 4))
    weight.grad = torch.ones(4, 3).T if layout == "gradient" else torch.ones_like(weight)
    radius = torch.ones(3, 4) if layout == "radii" else 1.0
    opt = cl.CoLud([{"params": [weight], "constraint": cl.Circle(radius)}], 0.1, friction=1.0)
    opt.step()
    assert {type(mover) for mover in opt._plan.movers} == {Plain}


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda w: w[0].add_(1e-4), id="one weight by a little"),
        pytest.param(lambda w: w.copy_(w.flip(0)), id="the same weights in another order"),
        pytest.param(lambda w: w.neg_(), id="all signs"),
        pytest.param(lambda w: w.copy_(w.roll(1)), id="shifted"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("count", [1000, 70_000])
def test_edits_through_data_are_noticed(edit: object, dtype: torch.dtype, count: int) -> None:
    weight = nn.Parameter(torch.rand(count, dtype=dtype) - 0.5)
    opt = cl.CoLud([{"params": [weight], "constraint": cl.Circle(1.0)}], 0.1, friction=1.0)
    weight.grad = torch.zeros_like(weight)
    opt.step()
    edit(weight.data)
    edited = weight.detach().clone()
    opt.step()
    torch.testing.assert_close(weight.detach(), edited, rtol=8 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize(("place", "seen"), [(256, True), (287, True), (288, False), (69_999, True)])
def test_of_a_large_circle_weight_an_eighth_and_the_end_are_watched(place: int, seen: bool) -> None:
    weight = nn.Parameter(torch.rand(70_000) - 0.5)
    opt = cl.CoLud([{"params": [weight], "constraint": cl.Circle(1.0)}], 0.1, friction=1.0)
    weight.grad = torch.zeros_like(weight)
    opt.step()
    before = weight.detach().clone()
    weight.data[place] += 0.01
    opt.step()
    expected = before[place] + (0.01 if seen else 0)
    torch.testing.assert_close(weight.detach()[place], expected, rtol=1e-6, atol=0)
    with torch.no_grad():
        weight[place] += 0.01  # in place, as torch sees it
    opt.step()
    torch.testing.assert_close(weight.detach()[place], expected + 0.01, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("several", [False, True])
def test_angles_that_pass_the_straight_one_come_back(dtype: torch.dtype, several: bool) -> None:
    weights = [nn.Parameter(torch.full((5,), 0.1, dtype=dtype)) for _ in range(1 + several)]
    opt = cl.CoLud([{"params": weights, "constraint": cl.Circle(0.5)}], 0.5, friction=0.0)
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    opt.step()
    for weight in weights:
        opt.state[weight]["momentum"].copy_(torch.tensor([0.0, 1.0, -1.0, 3.0, -3.0]))
    start = opt.state[weights[0]]["position"].clone()
    for _ in range(5):
        opt.step()
    turned = start + 2.5 * torch.tensor([0.0, 1.0, -1.0, 3.0, -3.0], dtype=dtype)
    tolerance = 8 * torch.finfo(dtype).eps
    for weight in weights:
        position = opt.state[weight]["position"]
        assert float(position.abs().max()) <= math.pi
        torch.testing.assert_close(weight.detach(), 0.5 * turned.sin(), rtol=0, atol=4 * tolerance)
        torch.testing.assert_close(weight.detach(), 0.5 * position.sin(), rtol=tolerance, atol=0)
