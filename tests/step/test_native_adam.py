"""Adam's native step beside the plain path: the same numbers, within a stated number of roundings."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.native.library import library
from colangevin.step.native import native
from colangevin.step.native.native import Native
from colangevin.step.plain import Plain
from tests.step.beside_plain import assert_near, both, fill_gradients, with_threads
from tests.step.test_native import BY_ROWS, CONSTRAINTS, DTYPES, SHAPES, after_three_steps, started

pytestmark = pytest.mark.skipif(library() is None, reason="the native library is not compiled")

# Largest difference after one step, in units of rounding of the largest number of the tensor. A quotient of
# averages doubles the rounding of both; a row has sums of as many products as it has entries.
ULPS, ULPS_OF_ROWS = 32.0, 128.0

HELD = {name: held for name, held in CONSTRAINTS.items() if name != "affine"}


def adam(**options: Any) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda groups: cl.ConstrainedAdam(groups, **{"lr": 0.02, "betas": (0.8, 0.95), **options})


@pytest.mark.parametrize("constraint", HELD)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_native_equals_plain(
    constraint: str, dtype: torch.dtype, decay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if constraint == "free" and dtype == torch.bfloat16:
        pytest.skip("its averages are bfloat16, as torch's are, which the library has no arithmetic for")
    generator, rows, held = torch.Generator().manual_seed(0), constraint in BY_ROWS, HELD[constraint]
    weights = [
        started(torch.empty(shape, dtype=dtype), held, generator)
        for shape in SHAPES
        if not (rows and math.prod(shape[1:]) == 1)
    ]
    build = adam(weight_decay=decay)
    opt, twin = both(lambda weights: build([{"params": weights, "constraint": held}]), weights, monkeypatch)
    assert_near(opt, twin, ULPS_OF_ROWS if rows else ULPS)


@pytest.mark.parametrize("constraint", HELD)
@pytest.mark.parametrize(
    "options",
    [
        {"maximize": True, "weight_decay": 0.1},
        {"betas": (0.0, 0.0), "eps": 1e-2},  # without it d is the sign of what may be rounding
        {"betas": (0.0, 0.9), "eps": 1.0},
        {"lr": 0.0},
        {"lr": 3.0},
        {"eps": 2e-38},
    ],
    ids=repr,
)
def test_options_are_followed(
    constraint: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator, held = torch.Generator().manual_seed(0), HELD[constraint]
    weights = [
        started(torch.empty(shape, dtype=torch.float64), held, generator) for shape in ((5, 300), (2, 3))
    ]
    build = adam(**options)
    opt, twin = both(lambda weights: build([{"params": weights, "constraint": held}]), weights, monkeypatch)
    # a row turns by some hundred radians at the higher rate, and rounding with it
    assert_near(opt, twin, 100 * ULPS_OF_ROWS if options.get("lr") else ULPS_OF_ROWS)


@pytest.mark.parametrize(
    "constraint",
    [
        cl.Free(),
        cl.Circle(torch.tensor([0.6, 0.8, 1.0]).view(3, 1, 1)),
        cl.Circle(torch.linspace(0.6, 1.0, 35)),
        cl.Sphere(torch.tensor([5.0, 6.0, 7.0]).view(3, 1)),
        cl.Sphere(torch.linspace(1.0, 2.0, 20), slack=False),
        cl.Simplex(),
    ],
    ids=repr,
)
def test_replicas_have_their_own_numbers_and_radii(
    constraint: cl.Constraint, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = (torch.rand(3, 20, 35, generator=generator) - 0.5).mul_(0.9)
    if isinstance(constraint, cl.Simplex):
        weight = weight.softmax(-1)
    weights = [nn.Parameter(constraint.init_(weight, init="nearest", replicas=True))]
    group = {"constraint": constraint, "replicas": 3}
    group |= {"lr": torch.tensor([0.02, 0.05, 0.1]), "weight_decay": torch.tensor([0.0, 0.1, 0.2])}
    build = adam()
    opt, twin = both(lambda weights: build([{**group, "params": weights}]), weights, monkeypatch)
    assert_near(opt, twin, ULPS_OF_ROWS)


@pytest.mark.parametrize("constraint", HELD)
def test_memory_may_begin_anywhere(constraint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator, held = torch.Generator().manual_seed(0), HELD[constraint]
    weights = [started(torch.empty(1503)[3:].view(5, 300), held, generator)]
    assert weights[0].data_ptr() % 16
    build = adam()
    opt, twin = both(lambda weights: build([{"params": weights, "constraint": held}]), weights, monkeypatch)
    assert_near(opt, twin, ULPS_OF_ROWS)


def test_vectors_and_groups_of_muon_that_are_under_adam_take_it() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4))
    groups = [
        {"params": list(model[1].parameters())},
        {"params": list(model[0].parameters()), "method": "adam", "lr": 1e-3},
    ]
    opt = cl.ConstrainedMuon(groups, 0.02, weight_decay=0.1)
    model(torch.arange(4)).square().sum().backward()
    opt.step()
    paths = {type(mover): {entry.index for entry in mover.entries} for mover in opt._plan.movers}
    assert paths == {Plain: {0}, Native: {1, 2}}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_free_weights_follow_torch(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    ours, theirs = ([nn.Parameter(torch.linspace(-1, 1, 700, dtype=dtype).view(7, 100))] for _ in range(2))
    opt = cl.ConstrainedAdam(ours, 0.01, weight_decay=0.1)
    other = torch.optim.AdamW(theirs, 0.01, weight_decay=0.1, foreach=False)
    for _ in range(100):
        fill_gradients(ours, generator)
        theirs[0].grad = ours[0].grad.clone()
        opt.step()
        other.step()
    assert {type(mover) for mover in opt._plan.movers} == {Native}
    torch.testing.assert_close(ours[0], theirs[0], rtol=0, atol=100 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_change_no_bit(threads: int) -> None:
    def run() -> list[Tensor]:
        return after_three_steps(adam(weight_decay=0.1), HELD.values())

    for one, other in zip(with_threads(1, run), with_threads(threads, run), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_wrong_number_would_be_seen(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ten-thousandth less of one number on one path, and the comparison above fails."""
    made = native.programs

    def spoiled(*arguments: Any) -> Any:
        programs = made(*arguments)
        programs[0].number[number] *= 0.9999
        return programs

    monkeypatch.setattr(native, "programs", spoiled)
    generator, held = torch.Generator().manual_seed(0), CONSTRAINTS["circle"]
    weights = [started(torch.empty(3, 257, dtype=torch.float64), held, generator)]
    build = adam(weight_decay=0.3)
    opt, twin = both(lambda weights: build([{"params": weights, "constraint": held}]), weights, monkeypatch)
    with pytest.raises(AssertionError):
        assert_near(opt, twin, ULPS)
