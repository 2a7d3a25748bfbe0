"""Fused steps of weights that are squares: non-negative entries, and rows on simplices."""

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.kernels.beside_plain import LIES, LOOSE, OPTIMIZERS, assert_close, run, start

CONSTRAINTS = {
    "non-negative": (cl.NonNegative(), "ElementwiseMover", "AdamLineMover"),
    "simplex": (cl.Simplex(), "SphereMover", "AdamSphereMover"),
}
#: what a row of a simplex is a root of is small, so that quotients of its gradients are uncertain
TOLERANCES = {torch.float32: LOOSE, torch.bfloat16: 1.6e-2, torch.float16: 4e-3}


def mover(constraint: str, optimizer: str) -> str:
    return CONSTRAINTS[constraint][1 + (optimizer == "Adam")]


@pytest.mark.parametrize("lies", ["contiguous", "channels last", "transposed"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_every_method(monkeypatch, device, constraint, optimizer, lies):
    shape, lie = LIES[lies]
    held, make = CONSTRAINTS[constraint][0], OPTIMIZERS[optimizer]
    name = mover(constraint, optimizer)
    assert_close(monkeypatch, name, held, make, shape, device, lies=lie, tolerance=LOOSE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("optimizer", ["CoLod", "OBA", "Adam"])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_weights_of_16_bits(monkeypatch, device, constraint, optimizer, dtype):
    held, make, name = CONSTRAINTS[constraint][0], OPTIMIZERS[optimizer], mover(constraint, optimizer)
    options = {"dtype": dtype, "tolerance": TOLERANCES[dtype]}
    assert_close(monkeypatch, name, held, make, (6, 33), device, **options)


@pytest.mark.parametrize("optimizer", ["CoLod", "SGD", "Adam"])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_weights_that_others_wrote(monkeypatch, device, constraint, optimizer):
    held, make, name = CONSTRAINTS[constraint][0], OPTIMIZERS[optimizer], mover(constraint, optimizer)

    def edit(weight: torch.Tensor) -> None:
        weight.data.copy_(weight.flip(1))

    assert_close(monkeypatch, name, held, make, (3, 70), device, edit=edit, tolerance=LOOSE)


def test_an_edited_weight_keeps_the_sign_of_its_root(device):
    weight = nn.Parameter(torch.tensor([4.0, 9.0]).to(device))
    optimizer = cl.CoLud([{"params": [weight], "constraint": cl.NonNegative()}], 0.1, friction=1.0)
    weight.grad = torch.zeros_like(weight)
    optimizer.step()
    optimizer.state[weight]["position"].neg_()
    weight.data.copy_(torch.tensor([1.0, 9.0]))
    optimizer.step()
    roots = torch.tensor([-1.0, -3.0])
    torch.testing.assert_close(optimizer.state[weight]["position"].cpu(), roots, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("optimizer", ["CoLod", "SGD", "Adam"])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_gradients_of_any_size_leave_finite_weights(device, constraint, optimizer, dtype):
    held = CONSTRAINTS[constraint][0]
    size = 1e30 if dtype == torch.float32 else 6e3
    options = {"size": size, "dtype": dtype, "steps": 4}
    result, _ = run(held, OPTIMIZERS[optimizer], (4, 6), device, **options)
    assert all(bool(each.isfinite().all()) for key, each in result.items() if key != "second_moment")
    assert held.violation(result["weight"]) <= (1e-5 if dtype == torch.float32 else 4e-3)


@pytest.mark.parametrize("optimizer", ["CoLod", "SGD", "Adam"])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_bad_gradient_moves_nothing_it_touches(device, constraint, optimizer):
    held = CONSTRAINTS[constraint][0]
    weight = nn.Parameter(start(held, (4, 6)).to(device))
    stepped = OPTIMIZERS[optimizer]([{"params": [weight], "constraint": held}])
    weight.grad = torch.ones_like(weight)
    weight.grad[1, 2] = torch.nan
    before = weight.detach().clone()
    stepped.step()
    assert weight[1, 2] == before[1, 2]
    assert bool(weight.isfinite().all())
    assert not torch.equal(weight.detach()[2], before[2])
