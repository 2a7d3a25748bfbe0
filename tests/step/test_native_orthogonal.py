"""Orthogonal weights on the CPU: the native library beside the plain path, and what it leaves to torch."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.native.library import library
from colangevin.step import plan
from colangevin.step.native import native as module
from colangevin.step.native.native import Native
from colangevin.step.plain import Plain
from tests.step.beside_plain import OPTIMIZERS, assert_near, both, spoil_a_number, with_threads

pytestmark = pytest.mark.skipif(library() is None, reason="the native library is not compiled")

# Largest difference after one step, in units of rounding of the largest number: products of up to 576 terms,
# and multipliers from an iteration.
ULPS = 64.0
#: tall, wide, square, of one vector, kernels, and sides around packs of 16 and blocks of 64
SHAPES = [(5, 1), (1, 5), (2, 2), (3, 3), (17, 9), (8, 3, 3, 3), (16, 16), (64, 65), (130, 70), (100, 100)]


def frame(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    return nn.Parameter(cl.Orthogonal().init_(drawn, init="nearest").to(dtype))


def frames(dtype: torch.dtype) -> list[nn.Parameter]:
    return [frame(*shape, dtype=dtype) for shape in SHAPES]


def held(weights: list[nn.Parameter], **options: Any) -> list[dict[str, Any]]:
    return [{"params": weights, "constraint": cl.Orthogonal(), **options}]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_native_equals_plain(optimizer: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    opt, twin = both(lambda weights: OPTIMIZERS[optimizer](held(weights)), frames(dtype), monkeypatch)
    assert_near(opt, twin, ULPS)


@pytest.mark.parametrize("options", [{"weight_decay": 0.1}, {"maximize": True}], ids=str)
@pytest.mark.parametrize("optimizer", ["CoLod, noise", "BAOAB, noise", "SGD"])
def test_options_are_followed(
    optimizer: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    build = OPTIMIZERS[optimizer]
    opt, twin = both(lambda weights: build(held(weights), **options), frames(torch.float32), monkeypatch)
    assert_near(opt, twin, ULPS)


@pytest.mark.parametrize("own", [False, True], ids=["one number", "numbers of their own"])
@pytest.mark.parametrize("optimizer", ["CoLod, noise", "BAOAB, noise"])
def test_replicas_have_noise_and_numbers_of_their_own(
    optimizer: str, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = [nn.Parameter(torch.stack([frame(12, 7, seed=k).detach() for k in range(3)]))]
    options: dict[str, Any] = {"replicas": 3, "first_replica": 4}
    if own:
        options |= {"lr": torch.tensor([0.02, 0.05, 0.1]), "weight_decay": torch.tensor([0.0, 0.1, 0.2])}
    opt, twin = both(lambda weights: OPTIMIZERS[optimizer](held(weights, **options)), weights, monkeypatch)
    assert_near(opt, twin, ULPS)


def test_kernels_of_one_pixel_in_channels_last_are_moved_in_place() -> None:
    """Their memory is in order, but a view of it has other strides than the weight."""
    weights = [frame(8, 4, 1, 1) for _ in range(2)]
    weights[1] = nn.Parameter(weights[1].detach().to(memory_format=torch.channels_last))
    opt = cl.CoLud(held(weights), 0.1, friction=1.0)
    for weight in weights:
        weight.grad = torch.full_like(weight, 0.1)
    opt.step()
    assert {type(mover) for mover in opt._plan.movers} == {Native}
    torch.testing.assert_close(*[weight.detach() for weight in weights], rtol=0, atol=1e-6)


# ---- sizes of steps -------------------------------------------------------------------------------------


def run(size: float, shape: tuple[int, ...], steps: int, dtype: torch.dtype) -> Any:
    weight, generator = frame(*shape, dtype=dtype), torch.Generator().manual_seed(1)
    opt = cl.ConstrainedSGD(held([weight]), lr=0.1, momentum=0.9)
    for _ in range(steps):
        weight.grad = size * torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        opt.step()
    return opt


# from steps that are rounding to steps for which no multipliers exist, and to ones that plain torch takes
@pytest.mark.parametrize("size", [1e-9, 1e-4, 0.02, 0.1, 0.3, 1.0, 10.0, 1e4])
@pytest.mark.parametrize("shape", [(20, 7), (12, 12), (16, 8, 3, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_steps_of_any_size_are_those_of_the_plain_path_and_stay_on_the_manifold(
    size: float, shape: tuple[int, ...], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = run(size, shape, 3, dtype)
    assert {type(mover) for mover in ours._plan.movers} == {Native}
    with monkeypatch.context() as patch:
        patch.setattr(plan, "native", lambda entry, dynamics: False)
        theirs = run(size, shape, 3, dtype)
    eps = torch.finfo(dtype).eps
    assert_near(ours, theirs, 4 * ULPS)
    assert max(cl.diagnostics.violation(ours).values()) <= 24 * eps
    assert max(cl.diagnostics.cotangency(ours).values()) <= 48 * eps


@pytest.mark.parametrize("lr", [1e-12, 1e-20, 1e-25, 1e-30])
@pytest.mark.parametrize("shape", [(12, 5), (6, 6)], ids=str)
def test_momenta_of_the_shortest_steps_are_cotangent(shape: tuple[int, int], lr: float) -> None:
    """The normal part of a step, lr times that of the momentum, underflows long before the momentum does."""
    weight, generator = frame(*shape), torch.Generator().manual_seed(1)
    opt = cl.CoLud(held([weight]), lr, friction=1.0)
    for _ in range(3):
        weight.grad = torch.randn(shape, generator=generator)
        opt.step()
    assert float(opt.state[weight]["momentum"].abs().max()) > 0
    assert max(cl.diagnostics.cotangency(opt).values()) <= 48 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("shape", [(24, 8), (16, 16)], ids=str)
def test_errors_do_not_grow_over_a_thousand_steps(shape: tuple[int, int]) -> None:
    opt = run(0.3, shape, 1000, torch.float32)
    assert max(cl.diagnostics.violation(opt).values()) <= 24 * torch.finfo(torch.float32).eps
    assert max(cl.diagnostics.cotangency(opt).values()) <= 48 * torch.finfo(torch.float32).eps


def test_errors_do_not_grow_under_a_gradient_that_pulls_outwards() -> None:
    """The normal part of every step is negative, which stretches an error of Q until it is looked at."""
    weight = frame(30, 10)
    opt = cl.ConstrainedSGD(held([weight]), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(1)
    for _ in range(200):
        weight.grad = -2 * weight.detach() + 0.1 * torch.randn(weight.shape, generator=generator)
        opt.step()
    assert max(cl.diagnostics.violation(opt).values()) <= 24 * torch.finfo(torch.float32).eps


# ---- what is left to plain torch ------------------------------------------------------------------------


def test_a_copy_whose_step_is_too_large_is_moved_by_plain_torch_and_the_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved: list[tuple[int, ...]] = []
    plainly = module.move_plainly

    def watched(entry: Any, copies: list[int], *rest: Any) -> None:
        moved.append(tuple(copies))
        plainly(entry, copies, *rest)

    monkeypatch.setattr(module, "move_plainly", watched)

    def steps(native: bool) -> Any:
        weight = nn.Parameter(torch.stack([frame(9, 4, seed=k).detach() for k in range(3)]))
        opt = cl.CoLud(held([weight], replicas=3), 0.3, friction=1.0, temperature=0.1, seed=1)
        with monkeypatch.context() as patch:
            if not native:
                patch.setattr(plan, "native", lambda entry, dynamics: False)
            for turn in range(3):
                weight.grad = torch.ones_like(weight)
                if turn == 1:
                    weight.grad[1].copy_(1e4 * torch.arange(36.0).view(9, 4).sin())
                opt.step()
        return opt

    ours, theirs = steps(native=True), steps(native=False)
    assert moved == [(1,)]
    assert_near(ours, theirs, 4 * ULPS)
    # the checksum that tells an edit was taken again: nothing is lifted, nothing is looked at
    rows = next(iter(ours._plan.movers))._rows[0]
    assert not any(row.edited or row.left_out for row in rows.table)


def test_matrices_of_one_entry_take_the_plain_path() -> None:
    def mover(weight: nn.Parameter) -> type:
        opt = cl.CoLud(held([weight]), 0.1, friction=1.0)
        weight.grad = torch.ones_like(weight)
        opt.step()
        return type(opt._plan.movers[0])

    assert mover(nn.Parameter(torch.ones(1, 1))) is Plain
    assert mover(frame(4, 3)) is Native


# ---- around it ------------------------------------------------------------------------------------------


def test_a_monitor_counts_what_the_plain_path_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from colangevin.constraints import solves

    def counted(size: float) -> solves.Solves:
        weight, counts = frame(20, 7), solves.Counts()
        opt = cl.CoLud(held([weight]), 0.1, friction=1.0)
        solves.watch(opt, counts)
        for _ in range(4):
            weight.grad = torch.full_like(weight, size)
            opt.step()
        return counts.of("Orthogonal")

    for size in (0.1, 30.0):
        ours = counted(size)
        with monkeypatch.context() as patch:
            patch.setattr(plan, "native", lambda entry, dynamics: False)
            theirs = counted(size)
        assert (ours.calls, ours.weights, ours.fallbacks) == (theirs.calls, theirs.weights, theirs.fallbacks)
        assert theirs.iterations <= ours.iterations <= theirs.iterations + 3 * ours.calls


def test_edits_are_noticed_and_infeasible_ones_refused() -> None:
    weight = frame(6, 4)
    opt = cl.CoLud(held([weight]), 0.1, friction=1.0)
    weight.grad = torch.zeros_like(weight)
    opt.step()
    other = frame(6, 4, seed=5).detach()
    weight.data.copy_(other)
    opt.step()
    torch.testing.assert_close(weight.detach(), other, rtol=0, atol=1e-6)
    weight.data[0] += 0.1
    with pytest.raises(cl.InfeasibleError, match="columns are not orthonormal"):
        opt.step()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_rounding_at_most(threads: int) -> None:
    """One matrix for all threads, many for each; the products of the first are cut differently."""

    def steps() -> list[Tensor]:
        weights = [frame(200, 150), *(frame(20, 10, seed=k) for k in range(8))]
        opt = cl.CoLud(held(weights), 0.1, friction=1.0, temperature=0.1, seed=1)
        for _ in range(3):
            for weight in weights:
                weight.grad = torch.full_like(weight, 0.1)
            opt.step()
        return [weight.detach() for weight in weights]

    for one, other in zip(with_threads(1, steps), with_threads(threads, steps), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_a_wrong_number_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ten-thousandth more of one letter on one path, and the comparison above fails."""
    spoil_a_number(monkeypatch)
    opt, twin = both(lambda weights: OPTIMIZERS["OBA"](held(weights)), [frame(20, 7)], monkeypatch)
    with pytest.raises(AssertionError):
        assert_near(opt, twin, ULPS)


def test_drifts_that_converge_slowly_land_where_plain_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """At this length the iteration takes nearly all of its rounds, and both paths have to accept the same."""

    def moved(start: Tensor, grad: Tensor) -> Tensor:
        weight = nn.Parameter(start.clone())
        weight.grad = grad
        cl.ConstrainedSGD([{"params": [weight], "constraint": cl.Orthogonal()}], 0.7, momentum=0.9).step()
        return weight.detach()

    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        q, g = torch.randn(2, 91, 90, dtype=torch.float64, generator=generator)
        q = torch.linalg.qr(q)[0].contiguous()
        S = q.T @ g
        g = g - q @ (S + S.T) / 2
        g /= torch.linalg.matrix_norm(g, 2)
        native = moved(q, g)
        with monkeypatch.context() as patch:
            patch.setattr(plan, "native", lambda entry, dynamics: False)
            plain = moved(q, g)
        torch.testing.assert_close(native, plain, rtol=0, atol=1e-11)
