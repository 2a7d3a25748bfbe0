"""Fused steps of weights that do not lie in the order of their elements, or are not cut into rows."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.kernels.beside_plain import LIES, LOOSE, OPTIMIZERS, assert_close, run

CONSTRAINTS = {
    "free": (cl.Free(), "ElementwiseMover"),
    "circle": (cl.Circle(0.8), "ElementwiseMover"),
    "sphere": (cl.Sphere(2.0, slack=False), "SphereMover"),
    "ball": (cl.Sphere(9.0), "SphereMover"),
}
SPHERES = {
    "kept rows": cl.Sphere(),
    "kept columns": cl.Sphere(over="columns"),
    "columns with slack": cl.Sphere(9.0, over="columns"),
    "kept matrix": cl.Sphere(over="matrix"),
    "matrix with slack": cl.Sphere(9.0, over="matrix"),
    "rows of a transposed weight": cl.Sphere(transposed=1),
    "columns of two groups of one": cl.Sphere(over="columns", transposed=2),
    "rows of two groups of one": cl.Sphere(4.0, transposed=2),
}
LYING = [name for name in LIES if name != "contiguous"]


@pytest.mark.parametrize("lies", LYING)
@pytest.mark.parametrize("optimizer", ["CoLod", "OBA", "BAOAB"])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_noise_is_that_of_the_contiguous_weight_bit_for_bit(device, constraint, optimizer, lies):
    held, mover = CONSTRAINTS[constraint]
    shape, lie = LIES[lies]
    ours, movers = run(held, OPTIMIZERS[optimizer], shape, device, lies=lie)
    contiguous, _ = run(held, OPTIMIZERS[optimizer], shape, device)
    assert movers == [mover]
    # compiled programs share the entries of a row otherwise among their threads, and round its sums otherwise
    tolerance = 1e-6 if device.type == "cuda" and mover == "SphereMover" else 0
    for key, value in contiguous.items():
        torch.testing.assert_close(ours[key], value, rtol=0, atol=tolerance, check_stride=False)


@pytest.mark.parametrize("lies", ["channels last", "permuted"])
@pytest.mark.parametrize("optimizer", ["SGD", "CoLod", "OBA"])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_weights_of_any_dense_layout(monkeypatch, device, constraint, optimizer, lies):
    held, mover = CONSTRAINTS[constraint]
    shape, lie = LIES[lies]
    assert_close(monkeypatch, mover, held, OPTIMIZERS[optimizer], shape, device, lies=lie)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("optimizer", ["SGD", "CoLod", "BAOAB"])
@pytest.mark.parametrize("lies", ["contiguous", "channels last", "transposed"])
def test_circles_with_a_radius_for_each_entry(monkeypatch, device, lies, optimizer, dtype):
    shape, lie = LIES[lies]
    radii = torch.linspace(0.5, 1.5, shape[1]).view(-1, *[1] * (len(shape) - 2))
    assert_close(
        monkeypatch,
        "ElementwiseMover",
        cl.Circle(radii),
        OPTIMIZERS[optimizer],
        shape,
        device,
        lies=lie,
        dtype=dtype,
        tolerance=5e-6 if dtype == torch.float32 else 1.6e-2,
    )


@pytest.mark.parametrize("lies", ["contiguous", "channels last", "channels last 3d"])
@pytest.mark.parametrize("optimizer", ["SGD", "CoLod"])
@pytest.mark.parametrize("constraint", SPHERES)
def test_spheres_of_any_slices(monkeypatch, device, constraint, optimizer, lies):
    shape, lie = LIES[lies]
    held = SPHERES[constraint]
    assert_close(
        monkeypatch, "SphereMover", held, OPTIMIZERS[optimizer], shape, device, lies=lie, tolerance=LOOSE
    )


@pytest.mark.parametrize("constraint", ["kept columns", "columns with slack"])
def test_columns_of_16_bits(monkeypatch, device, constraint):
    held = SPHERES[constraint]
    options = {"dtype": torch.bfloat16, "tolerance": 1.6e-2}
    assert_close(monkeypatch, "SphereMover", held, OPTIMIZERS["OBA"], (12, 7), device, **options)


def test_replicas_in_channels_last(monkeypatch, device):
    def lies(tensor: Tensor) -> Tensor:
        return torch.stack([*tensor]).permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)

    def weights(lie) -> Tensor:
        weight = nn.Parameter(lie(torch.linspace(-0.3, 0.3, 3 * 48).view(3, 4, 3, 2, 2)).to(device))
        circles = cl.Circle(torch.tensor([0.5, 0.6]))
        group = {"params": [weight], "constraint": circles, "replicas": 3}
        optimizer = cl.CoLud([group], 0.1, friction=1.0, temperature=0.01, seed=1)
        weight.grad = lie(torch.ones(weight.shape)).to(device)
        optimizer.step()
        assert optimizer._plan.watching
        return weight.detach()

    assert torch.equal(weights(lies), weights(torch.clone))


def test_a_weight_with_gaps_takes_the_plain_path(device):
    _, movers = run(cl.Free(), OPTIMIZERS["SGD"], (6, 4), device, lies=lambda t: torch.cat((t, t), 1)[:, :4])
    assert movers == ["Plain"]


@pytest.mark.parametrize("negated", ["weight", "gradient"])
def test_what_torch_negates_when_it_is_read_takes_the_plain_path(device, negated):
    start, grad = torch.ones(4, device=device), torch.ones(4, device=device)
    weight = nn.Parameter(torch._neg_view(start) if negated == "weight" else start)
    weight.grad = torch._neg_view(grad) if negated == "gradient" else grad
    cl.ConstrainedSGD([weight], lr=1.0).step()
    assert weight.tolist() == ([-2.0] * 4 if negated == "weight" else [2.0] * 4)
