"""Gradients along the normal of the orthogonality constraint, which a step has to throw away, of any size."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl

SHAPES = ((64, 32), (32, 64), (32, 32), (8, 4, 3, 3), (7, 1), (1, 7), (2, 2), (1, 1))
SCALES = (3.0, 30.0, 1e4, 1e8)
OPTIMIZERS = {
    "ConstrainedSGD": lambda groups, lr: cl.ConstrainedSGD(groups, lr, momentum=0.9),
    "overdamped SGD": lambda groups, lr: cl.ConstrainedSGD(groups, lr),
    "CoLod": lambda groups, lr: cl.CoLod(groups, lr),
    "CoLud": lambda groups, lr: cl.CoLud(groups, lr**0.5, friction=1.0),
    "CoLud, noise": lambda groups, lr: cl.CoLud(groups, lr**0.5, friction=1.0, temperature=1e-3, seed=0),
    "BAOAB": lambda groups, lr: cl.CoLud(groups, lr**0.5, friction=1.0, splitting="BAOAB"),
}
# In units of the dtype's rounding: 4e-6 in float32, 7e-15 in float64.
TOLERANCE = 32


def orthonormal(seed: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return nn.init.orthogonal_(weight).to(dtype)


def errors(optimizer: torch.optim.Optimizer) -> tuple[float, float]:
    """Of constraint and momentum, in units of rounding."""
    (weight,) = optimizer.param_groups[0]["params"]
    eps = torch.finfo(weight.dtype).eps
    replicas = bool(optimizer.param_groups[0]["replicas"])
    away = cl.Orthogonal().violation(weight, replicas=replicas)
    return away / eps, max(cl.diagnostics.cotangency(optimizer).values(), default=0.0) / eps


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lr", [0.1, 1e-6])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_gradient_along_the_normal_leaves_the_manifold(name, lr, dtype):
    for shape in SHAPES:
        for scale in SCALES:
            torch.manual_seed(0)
            weight = nn.Parameter(orthonormal(0, shape, dtype))
            optimizer = OPTIMIZERS[name]([{"params": [weight], "constraint": cl.Orthogonal()}], lr)
            for k in range(4):
                grad = weight.detach() * scale * (-1) ** k
                weight.grad = grad + 0.01 * torch.randn(shape, dtype=dtype) if k % 2 else grad
                optimizer.step()
                away, along = errors(optimizer)
                assert away <= TOLERANCE, (shape, scale, k)
                assert along <= TOLERANCE, (shape, scale, k)


def test_a_sum_of_squares_over_a_batch_leaves_the_weight_where_it_is():
    torch.manual_seed(0)
    model = nn.Linear(32, 64, bias=False)
    model.weight.data = orthonormal(0, (64, 32), torch.float32)
    start = model.weight.detach().clone()
    optimizer = cl.ConstrainedSGD(
        [{"params": model.parameters(), "constraint": cl.Orthogonal()}], lr=0.1, momentum=0.9
    )
    # |Wx|^2 = |x|^2 is constant on the manifold, so the whole gradient is normal
    model(torch.randn(1024, 32)).square().sum().backward()
    optimizer.step()
    assert max(errors(optimizer)) <= TOLERANCE
    assert (model.weight - start).abs().max() < 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_replica_gets_what_it_would_get_alone(dtype):
    # the second has a large normal gradient, the third a step too long for the iteration
    weights = torch.stack([orthonormal(i, (12, 6), dtype) for i in range(3)])
    tangent = torch.randn(12, 6, generator=torch.Generator().manual_seed(9), dtype=dtype)
    grads = torch.stack([0.1 * tangent, 1e5 * weights[1], 1e3 * tangent])

    def step(stack: Tensor, grad: Tensor) -> tuple[Tensor, torch.optim.Optimizer]:
        parameter = nn.Parameter(stack.clone())
        group = {"params": [parameter], "constraint": cl.Orthogonal(), "replicas": len(stack)}
        optimizer = cl.ConstrainedSGD([group], 0.1, momentum=0.9)
        parameter.grad = grad.clone()
        optimizer.step()
        assert max(errors(optimizer)) <= TOLERANCE
        return parameter.detach(), optimizer

    together, _ = step(weights, grads)
    for i in range(3):
        alone, _ = step(weights[i : i + 1], grads[i : i + 1])
        torch.testing.assert_close(together[i : i + 1], alone, rtol=0, atol=1e3 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("kind", [cl.CoLod, cl.ConstrainedSGD])
def test_a_small_error_of_the_weight_does_not_grow_under_a_steady_pull(kind):
    weight = nn.Parameter(orthonormal(3, (20, 10), torch.float32))
    optimizer = kind([{"params": [weight], "constraint": cl.Orthogonal()}], 0.1)
    for k in range(50):
        weight.grad = -15.0 * weight.detach()
        optimizer.step()
        assert errors(optimizer)[0] <= TOLERANCE, k


@pytest.mark.parametrize("shape", [(64, 32), (32, 64), (1, 1), (3, 3)])
def test_the_projection_of_a_normal_momentum_is_cotangent_beside_its_own_size(shape):
    q = orthonormal(5, shape, torch.float32).unsqueeze(0)
    for scale in (1.0, 1e4, 1e8):
        p = cl.Orthogonal().on(q.shape[1:]).tangent(q, scale * q)
        assert float(cl.Orthogonal().on(q.shape[1:]).cotangency(q, p)) <= TOLERANCE * torch.finfo(q.dtype).eps
        assert float(p.abs().max()) <= 1e-5 * scale
