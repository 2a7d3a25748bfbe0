"""Blocks and other scales of orthogonal weights on the CPU: the native library beside the plain path."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.native.library import library
from colangevin.step.native.native import Native
from colangevin.step.plain import Plain
from tests.step.beside_plain import OPTIMIZERS, assert_near, both, fill_gradients, spoil_a_number

pytestmark = pytest.mark.skipif(library() is None, reason="the native library is not compiled")

# As of whole matrices: largest difference after one step, in units of rounding of the largest number.
ULPS = 64.0
#: tall, wide, square and of one vector each, kernels, and sides around packs of 16 and blocks of 64
SHAPES = [(15, 2), (3, 5), (6, 2), (9, 3), (51, 9), (9, 3, 3, 3), (48, 16), (192, 65), (300, 100)]
CONSTRAINTS = [cl.Orthogonal(blocks=3), cl.Orthogonal(scale=1.5), cl.Orthogonal(scale=0.3, blocks=3)]


def held_weight(
    constraint: cl.Orthogonal, *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0
) -> nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    return nn.Parameter(constraint.init_(drawn, init="nearest").to(dtype))


def held_weights(constraint: cl.Orthogonal, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    return [held_weight(constraint, *shape, dtype=dtype) for shape in SHAPES]


def groups(constraint: cl.Orthogonal, weights: list[nn.Parameter], **options: Any) -> list[dict[str, Any]]:
    return [{"params": weights, "constraint": constraint, **options}]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
def test_native_equals_plain(
    constraint: cl.Orthogonal, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = OPTIMIZERS[optimizer]
    weights = held_weights(constraint)
    assert_near(*both(lambda some: build(groups(constraint, some)), weights, monkeypatch), ULPS)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("optimizer", ["CoLod, noise", "BAOAB, noise", "SGD"])
def test_dtypes(optimizer: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """In half precision the state holds the matrices without their scale."""
    constraint, build = CONSTRAINTS[-1], OPTIMIZERS[optimizer]
    weights = held_weights(constraint, dtype)
    assert_near(*both(lambda some: build(groups(constraint, some)), weights, monkeypatch), ULPS)


@pytest.mark.parametrize("options", [{"weight_decay": 0.1}, {"maximize": True}], ids=str)
@pytest.mark.parametrize("optimizer", ["CoLod, noise", "BAOAB, noise", "SGD"])
def test_options_are_followed(
    optimizer: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    constraint, build = CONSTRAINTS[-1], OPTIMIZERS[optimizer]
    weights = held_weights(constraint)
    assert_near(*both(lambda some: build(groups(constraint, some), **options), weights, monkeypatch), ULPS)


@pytest.mark.parametrize("own", [False, True], ids=["one number", "numbers of their own"])
@pytest.mark.parametrize("optimizer", ["CoLod, noise", "BAOAB, noise"])
def test_replicas_have_noise_and_numbers_of_their_own(
    optimizer: str, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraint, build = CONSTRAINTS[-1], OPTIMIZERS[optimizer]
    drawn = [held_weight(constraint, 24, 7, seed=seed).detach() for seed in range(3)]
    options: dict[str, Any] = {"replicas": 3, "first_replica": 4}
    if own:
        options |= {"lr": torch.tensor([0.02, 0.05, 0.1]), "weight_decay": torch.tensor([0.0, 0.1, 0.2])}
    weights = [nn.Parameter(torch.stack(drawn))]
    assert_near(*both(lambda some: build(groups(constraint, some, **options)), weights, monkeypatch), ULPS)


def test_a_spoiled_step_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    constraint, build = CONSTRAINTS[-1], OPTIMIZERS["BAOAB, noise"]
    spoil_a_number(monkeypatch)
    opt, twin = both(lambda some: build(groups(constraint, some)), held_weights(constraint), monkeypatch)
    with pytest.raises(AssertionError):
        assert_near(opt, twin, ULPS)


def test_blocks_are_moved_as_matrices_of_their_own() -> None:
    """Without noise, three blocks in one tensor take the steps of three tensors, bit for bit."""
    constraint = cl.Orthogonal(scale=0.3, blocks=3)
    whole = held_weight(constraint, 36, 5)
    apart = [nn.Parameter(block.clone()) for block in whole.detach().chunk(3)]
    build = OPTIMIZERS["SGD"]
    one, many = build(groups(constraint, [whole])), build(groups(cl.Orthogonal(scale=0.3), apart))
    for seed in range(5):
        fill_gradients([whole], torch.Generator().manual_seed(seed))
        for part, grad in zip(apart, whole.grad.chunk(3), strict=True):
            part.grad = grad.clone()
        one.step()
        many.step()
    assert torch.equal(whole, torch.cat(apart))


@pytest.mark.parametrize("shape", [(36, 5), (15, 20)], ids=str)
def test_one_of_them_may_be_left_to_torch(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient that takes float64 to land falls on the second block alone."""
    constraint = cl.Orthogonal(scale=0.3, blocks=3)
    weight = held_weight(constraint, *shape)
    opt = OPTIMIZERS["SGD without momentum"](groups(constraint, [weight]))
    opt.step(lambda: fill_gradients([weight], torch.Generator().manual_seed(0)) or torch.zeros(()))
    before = weight.detach().clone()
    weight.grad = 0.1 * torch.randn(shape, generator=torch.Generator().manual_seed(1))
    weight.grad[shape[0] // 3 : 2 * shape[0] // 3] *= 1e5
    twin_weight, twin = copy.deepcopy((weight, opt))
    twin_weight.grad = weight.grad.clone()
    opt.step()
    left_out = [row.left_out for row in opt._plan.movers[0].entries[0].rows.table]
    assert left_out == [0, 1, 0]
    with monkeypatch.context() as patch:
        patch.setattr("colangevin.step.plan.native", lambda entry, dynamics: False)
        twin.step()
        assert {type(mover) for mover in twin._plan.movers} == {Plain}
    assert not torch.equal(weight, before)
    assert max(cl.diagnostics.violation(opt).values()) < 1e-5
    torch.testing.assert_close(weight, twin_weight, rtol=0, atol=1e-5)


def test_turned_weights_and_single_entries_take_the_plain_path() -> None:
    """A transposed convolution has its outputs in dimension 1: blocks of them lie scattered in memory."""
    layer = nn.ConvTranspose2d(4, 6, 3)
    turned = cl.ConstrainedSGD(cl.constrain(layer, {"weight": cl.Orthogonal(blocks=2)}, init="nearest"), 0.1)
    lone = nn.Parameter(torch.tensor([[0.5], [-0.5]]))
    of_one = cl.ConstrainedSGD(groups(cl.Orthogonal(scale=0.5, blocks=2), [lone]), 0.1)
    for opt, weight in ((turned, layer.weight), (of_one, lone)):
        weight.grad = torch.ones_like(weight)
        opt.step()
        kinds = {type(mover) for mover in opt._plan.movers if weight in [e.parameter for e in mover.entries]}
        assert kinds == {Plain}


def test_a_weight_that_is_on_its_manifold_is_not_written_anew() -> None:
    """W / c times c may be rounded: a change of options alone must not move a weight."""
    constraint = cl.Orthogonal(scale=0.3, blocks=3)
    weight = held_weight(constraint, 36, 5)
    opt = OPTIMIZERS["SGD"](groups(constraint, [weight]))
    weight.grad = torch.zeros_like(weight)
    opt.step()
    (mover,) = opt._plan.movers
    assert isinstance(mover, Native)
    opt.param_groups[0]["maximize"] = True
    opt.step()
    assert mover._lifted == []
