"""The native library beside the plain path: the same numbers, within a stated number of roundings."""

import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.native.library import library
from colangevin.step.native.native import Native
from colangevin.step.plain import Plain
from tests.step.beside_plain import (
    OPTIMIZERS,
    assert_near,
    both,
    fill_gradients,
    spoil_a_number,
    with_threads,
)

pytestmark = pytest.mark.skipif(library() is None, reason="the native library is not compiled")

# Largest difference after one step, in units of rounding of the largest number of the tensor.
ULPS = 16.0
# A row of a sphere has sums of as many products as it has entries.
ULPS_OF_ROWS = 64.0

CONSTRAINTS: dict[str, cl.Constraint] = {
    "free": cl.Free(),
    "circle": cl.Circle(0.8),
    "small circle": cl.Circle(0.51),
    "sphere": cl.Sphere(1.5, slack=False),
    "sphere, slack": cl.Sphere(30.0),
    "nonnegative": cl.NonNegative(),
    "simplex": cl.Simplex(),
    "affine": cl.Affine.sum(1.0),
}
BY_ROWS = ("sphere", "sphere, slack", "simplex", "affine")
#: sizes around the blocks of 256, the packs of 16 and 8, and the units of 16384
SHAPES = [(1,), (2, 3), (7, 9), (255,), (3, 257), (1, 1000), (129, 127), (16385,), (3, 20_000)]
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def started(weight: Tensor, constraint: cl.Constraint, generator: torch.Generator) -> nn.Parameter:
    drawn = torch.rand(weight.shape, generator=generator, dtype=torch.float64) - 0.5
    if isinstance(constraint, cl.NonNegative):
        drawn = drawn.abs()
    if isinstance(constraint, cl.Simplex):
        drawn = drawn.flatten(1).softmax(1).view(drawn.shape)
    weight.copy_(constraint.init_(drawn, init="nearest"))
    return nn.Parameter(weight)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_native_equals_plain(
    optimizer: str, constraint: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator, rows = torch.Generator().manual_seed(0), constraint in BY_ROWS
    held = CONSTRAINTS[constraint]
    weights = [
        started(torch.empty(shape, dtype=dtype), held, generator)
        for shape in SHAPES
        if not (rows and math.prod(shape[1:]) == 1)
    ]
    groups = [{"params": weights, "constraint": held}]
    opt, twin = both(
        lambda weights: OPTIMIZERS[optimizer]([{**groups[0], "params": weights}]), weights, monkeypatch
    )
    assert_near(opt, twin, ULPS_OF_ROWS if rows else ULPS)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("optimizer", ["CoLod, noise", "BAOAB, noise", "SGD"])
@pytest.mark.parametrize(
    "options", [{"weight_decay": 0.1}, {"maximize": True}, {"weight_decay": 0.1, "maximize": True}]
)
def test_options_are_followed(
    constraint: str, optimizer: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator, held = torch.Generator().manual_seed(0), CONSTRAINTS[constraint]
    weights = [started(torch.empty(shape), held, generator) for shape in ((5, 300), (2, 3))]
    opt, twin = both(
        lambda weights: OPTIMIZERS[optimizer]([{"params": weights, "constraint": held}], **options),
        weights,
        monkeypatch,
    )
    assert_near(opt, twin, ULPS_OF_ROWS)


@pytest.mark.parametrize(
    "constraint",
    [
        cl.Free(),
        cl.Circle(0.8),
        cl.Circle(torch.tensor([0.6, 0.8, 1.0]).view(3, 1, 1)),
        cl.Circle(torch.linspace(0.6, 1.0, 35)),
        cl.Sphere(torch.tensor([5.0, 6.0, 7.0]).view(3, 1)),
        cl.Sphere(torch.linspace(1.0, 2.0, 20), slack=False),
        cl.Affine.mean(0.5),
    ],
    ids=repr,
)
@pytest.mark.parametrize("optimizer", ["CoLod, noise", "BAOAB, noise", "ABOBA, noise"])
@pytest.mark.parametrize("own", [False, True], ids=["one number", "numbers of their own"])
def test_replicas_have_their_own_noise_numbers_and_radii(
    constraint: cl.Constraint, optimizer: str, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = (torch.rand(3, 20, 35, generator=generator) - 0.5).mul_(0.9)
    weights = [nn.Parameter(constraint.init_(weight, init="nearest", replicas=True))]
    group = {"constraint": constraint, "replicas": 3, "first_replica": 4}
    if own:
        group |= {"lr": torch.tensor([0.02, 0.05, 0.1]), "weight_decay": torch.tensor([0.0, 0.1, 0.2])}
    opt, twin = both(
        lambda weights: OPTIMIZERS[optimizer]([{**group, "params": weights}]), weights, monkeypatch
    )
    assert_near(opt, twin, ULPS_OF_ROWS)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("offset", [1, 3])
def test_memory_may_begin_anywhere(constraint: str, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator, held = torch.Generator().manual_seed(0), CONSTRAINTS[constraint]
    room = torch.empty(2000 + offset)
    weights = [started(room[offset : offset + 1500].view(5, 300), held, generator)]
    assert weights[0].data_ptr() % 16
    opt, twin = both(
        lambda weights: OPTIMIZERS["BAOAB, noise"]([{"params": weights, "constraint": held}]),
        weights,
        monkeypatch,
    )
    assert_near(opt, twin, ULPS_OF_ROWS)


def test_channels_last_weights_walk_through_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = started(torch.empty(8, 5, 3, 3), cl.Circle(0.8), generator)
    weights = [nn.Parameter(weight.detach().to(memory_format=torch.channels_last))]

    def fill(weights: list[nn.Parameter], generator: torch.Generator) -> None:
        for weight in weights:
            weight.grad = torch.randn(weight.shape, generator=generator).to(memory_format=torch.channels_last)

    monkeypatch.setattr("tests.step.beside_plain.fill_gradients", fill)
    opt, twin = both(
        lambda weights: OPTIMIZERS["SGD"]([{"params": weights, "constraint": cl.Circle(0.8)}]),
        weights,
        monkeypatch,
    )
    assert_near(opt, twin, ULPS)


@pytest.mark.parametrize("layout", ["transposed", "gradient", "too many letters"])
def test_what_the_library_cannot_walk_through_takes_the_plain_path(layout: str) -> None:
    weight = nn.Parameter(torch.zeros(4, 3).T if layout == "transposed" else torch.zeros(3, 4))
    weight.grad = torch.ones(4, 3).T if layout == "gradient" else torch.ones_like(weight)
    splitting = "OBA" if layout != "too many letters" else "OBA" + 70 * "O"
    opt = cl.CoLud(
        [{"params": [weight], "constraint": cl.Circle(1.0)}], 0.1, friction=1.0, splitting=splitting
    )
    opt.step()
    assert {type(mover) for mover in opt._plan.movers} == {Plain}


def test_a_lazily_negated_gradient_is_not_taken_for_its_memory() -> None:
    weights = [nn.Parameter(torch.zeros(4)) for _ in range(2)]
    opt = cl.ConstrainedSGD(weights, lr=1.0)
    for turn in range(2):
        for weight in weights:
            weight.grad = torch.ones(4)
        if turn:
            weights[0].grad = torch._neg_view(torch.ones(4))
        opt.step()
    assert weights[0].tolist() == [0.0] * 4
    assert weights[1].tolist() == [-2.0] * 4


def test_a_momentum_that_is_asked_for_later_is_made() -> None:
    weight = nn.Parameter(torch.full((4,), 0.1))
    opt = cl.ConstrainedSGD([{"params": [weight], "constraint": cl.Circle(1.0)}], lr=0.1)
    for momentum in (0.0, 0.9, 0.0, 0.9):
        opt.param_groups[0]["momentum"] = momentum
        weight.grad = torch.ones(4)
        opt.step()
    assert "momentum" in opt.state[weight]
    assert opt._plan.movers[0].__class__ is Native


def after_three_steps(
    build: Callable[..., torch.optim.Optimizer], constraints: Iterable[cl.Constraint]
) -> list[Tensor]:
    """A weight of several units of work on each constraint, moved by one optimizer."""
    generator = torch.Generator().manual_seed(0)
    weights = {held: started(torch.empty(300, 257), held, generator) for held in constraints}
    opt = build([{"params": [weight], "constraint": held} for held, weight in weights.items()])
    for _ in range(3):
        fill_gradients(list(weights.values()), generator)
        opt.step()
    return list(weights.values())


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_threads_change_no_bit(threads: int) -> None:
    def run() -> list[Tensor]:
        return after_three_steps(OPTIMIZERS["BAOAB, noise"], CONSTRAINTS.values())

    for one, other in zip(with_threads(1, run), with_threads(threads, run), strict=True):
        assert torch.equal(one, other)


def test_a_wrong_number_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ten-thousandth more of one letter on one path, and the comparison above fails."""
    spoil_a_number(monkeypatch)
    generator = torch.Generator().manual_seed(0)
    weights = [started(torch.empty(3, 257), cl.Circle(0.8), generator)]
    opt, twin = both(
        lambda weights: OPTIMIZERS["OBA"]([{"params": weights, "constraint": cl.Circle(0.8)}]),
        weights,
        monkeypatch,
    )
    with pytest.raises(AssertionError):
        assert_near(opt, twin, ULPS)


# ---- edits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda w: w[0].add_(1e-4), id="one weight by a little"),
        pytest.param(lambda w: w.copy_(w.flip(0)), id="the same weights in another order"),
        pytest.param(lambda w: w.neg_(), id="all signs"),
        pytest.param(lambda w: w.copy_(w.roll(1)), id="shifted"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("count", [1000, 1024, 70_000, 1 << 17])
def test_edits_through_data_are_noticed(edit: object, dtype: torch.dtype, count: int) -> None:
    weight = nn.Parameter(torch.rand(count, dtype=dtype) - 0.5)
    opt = cl.CoLud([{"params": [weight], "constraint": cl.Circle(1.0)}], 0.1, friction=1.0)
    weight.grad = torch.zeros_like(weight)
    opt.step()
    edit(weight.data)
    edited = weight.detach().clone()
    opt.step()
    torch.testing.assert_close(weight.detach(), edited, rtol=8 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("constraint", [cl.Circle(1.0), cl.Sphere(10.0, slack=True)], ids=str)
@pytest.mark.parametrize(("place", "seen"), [(256, True), (287, True), (288, False), (69_999, True)])
def test_of_a_large_weight_an_eighth_and_the_end_are_watched(
    constraint: cl.Constraint, place: int, seen: bool
) -> None:
    weight = nn.Parameter(torch.rand(700, 100) - 0.5)
    flat = weight.detach().view(-1)
    opt = cl.CoLud([{"params": [weight], "constraint": constraint}], 0.1, friction=1.0)
    weight.grad = torch.zeros_like(weight)
    opt.step()
    before = flat.clone()
    weight.data.view(-1)[place] += 0.01
    opt.step()
    expected = before[place] + (0.01 if seen else 0)
    torch.testing.assert_close(flat[place], expected, rtol=1e-6, atol=0)
    with torch.no_grad():
        weight.view(-1)[place] += 0.01  # in place, as torch sees it
    opt.step()
    torch.testing.assert_close(flat[place], expected + 0.01, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("place", "seen"), [(256, True), (288, False)])
def test_an_edit_of_a_large_sphere_weight_is_refused_or_projected_back(place: int, seen: bool) -> None:
    weight = nn.Parameter(torch.rand(700, 100) - 0.5)
    constraint = cl.Sphere(2.0, slack=False)
    constraint.init_(weight)
    opt = cl.CoLud([{"params": [weight], "constraint": constraint}], 0.1, friction=1.0)
    weight.grad = torch.randn_like(weight)
    opt.step()
    weight.data.view(-1)[place] += 0.1
    with pytest.raises(cl.InfeasibleError) if seen else nullcontext():
        opt.step()
    if not seen:
        lengths = weight.detach().double().norm(dim=1)
        torch.testing.assert_close(lengths, torch.full_like(lengths, 2.0), rtol=1e-6, atol=0)


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
