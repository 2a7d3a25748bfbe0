"""What Muon's learning rate means under each constraint, in whichever way that is written down."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.constraints.orientation import turned


def moved(constraint: cl.Constraint, weight: Tensor, grad: Tensor, lr: float = 0.01) -> Tensor:
    """The difference that a step of Muon makes."""
    parameter = nn.Parameter(weight.clone())
    optimizer = cl.ConstrainedMuon([{"params": [parameter], "constraint": constraint}], lr)
    parameter.grad = grad.clone()
    optimizer.step()
    return parameter.detach() - weight


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(64, 8), (8, 64), (16, 16)])
@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_orthogonal_matrices_turn_alike_at_every_scale(shape: tuple[int, int], scale: float) -> None:
    weight, grad = torch.linalg.qr(drawn(64, 64))[0][: shape[0], : shape[1]], drawn(*shape, seed=1)
    weight = cl.Orthogonal().init_(weight.clone(), init="nearest")
    alone = moved(cl.Orthogonal(), weight, grad)
    scaled = moved(cl.Orthogonal(scale=scale), scale * weight, grad)
    torch.testing.assert_close(scaled / scale, alone, rtol=0, atol=1e-5)


def test_blocks_turn_as_matrices_of_their_own() -> None:
    weight = torch.cat([torch.linalg.qr(drawn(24, 4, seed=k))[0] for k in range(3)])
    grad = drawn(72, 4, seed=1)
    together = moved(cl.Orthogonal(blocks=3), weight, grad)
    alone = [moved(cl.Orthogonal(), w, g) for w, g in zip(weight.split(24), grad.split(24), strict=True)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda turned: cl.Sphere(1.0, slack=False, transposed=turned),
        lambda turned: cl.Sphere(2.0, transposed=turned),
        lambda turned: cl.Sphere(3.0, slack=False, over="columns", transposed=turned),
        lambda turned: cl.Sphere(5.0, slack=False, over="matrix", transposed=turned),
        lambda turned: cl.Orthogonal(transposed=turned),
    ],
)
@pytest.mark.parametrize("groups", [1, 2])
def test_a_transposed_convolution_moves_as_the_convolution_of_the_same_kernel(
    build: Callable[[int], cl.Constraint], groups: int
) -> None:
    kernel = build(0).init_(drawn(6, 8 // groups, 3, 3), init="nearest")
    grad = drawn(*kernel.shape, seed=1)
    plain = moved(build(0), kernel, grad)
    other = moved(build(groups), turned(kernel[None], groups)[0], turned(grad[None], groups)[0])
    torch.testing.assert_close(turned(other[None], groups)[0], plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize("adjust", ["original", "match_rms_adamw"])
def test_rows_and_columns_of_a_simplex_move_alike(adjust: str) -> None:
    weight, grad = drawn(6, 6).softmax(1), drawn(6, 6, seed=1)
    changes = []
    for over in ("rows", "columns"):
        turn = (lambda x: x.T) if over == "columns" else (lambda x: x)
        parameter = nn.Parameter(turn(weight).clone())
        group = {"params": [parameter], "constraint": cl.Simplex(over=over)}
        optimizer = cl.ConstrainedMuon([group], 0.02, adjust_lr_fn=adjust)
        parameter.grad = turn(grad).clone()
        optimizer.step()
        changes.append(turn(parameter.detach()) - weight)
    torch.testing.assert_close(
        changes[0], changes[1], rtol=0, atol=5e-2 * float(changes[0].abs().max())
    )  # iterated in bfloat16


def test_the_rate_of_a_simplex_is_adjusted_to_its_shape() -> None:
    sizes = []
    for adjust in ("original", "match_rms_adamw"):
        parameter = nn.Parameter(drawn(4, 16).softmax(1))
        weight = parameter.detach().clone()
        group = {"params": [parameter], "constraint": cl.Simplex()}
        optimizer = cl.ConstrainedMuon([group], 1e-4, adjust_lr_fn=adjust)
        parameter.grad = drawn(4, 16, seed=1)
        optimizer.step()
        sizes.append(float((parameter.detach() - weight).norm()))
    assert sizes[1] / sizes[0] == pytest.approx(0.2 * 16**0.5, rel=1e-2)
