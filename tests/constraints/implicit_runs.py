"""Runs under general constraints, and what a failed step must leave unchanged."""

import copy

import torch
from torch import Tensor

import colangevin as cl
from colangevin.optim.base import ConstrainedOptimizer

TOL = 1e-10


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_same(actual: Tensor, expected: Tensor, tol: float = TOL) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=tol)


def run_noisily(
    optimizer: ConstrainedOptimizer, steps: int, tolerance: float, grad_scale: float = 0.5
) -> list[Tensor]:
    """Step under random gradients; after each step the weight is on the manifold and the momentum cotangent.

    The tolerance is of g, relative to how far it moves when the weight moves by its own size, and of J p,
    relative to p.

    Returns:
        The weights after each step.
    """
    (group,) = optimizer.param_groups
    (parameter,) = group["params"]
    stack = parameter.detach() if group["replicas"] else parameter.detach().unsqueeze(0)
    manifold = group["constraint"].on(stack.shape[1:])
    path = []
    for step in range(steps):
        parameter.grad = grad_scale * normal(1000 + step, *parameter.shape).to(parameter.dtype)
        optimizer.step()
        assert float(manifold.infeasibility(stack).max()) <= tolerance
        assert max(cl.diagnostics.cotangency(optimizer).values(), default=0.0) <= tolerance
        path.append(parameter.detach().clone())
    return path


def everything(optimizer: ConstrainedOptimizer) -> tuple[list[Tensor], list[Tensor], dict[str, object]]:
    """Copies of the weights, the gradients and the state dict."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return (
        [parameter.detach().clone() for parameter in parameters],
        [parameter.grad.clone() for parameter in parameters],
        copy.deepcopy(optimizer.state_dict()),
    )


def assert_unchanged(
    optimizer: ConstrainedOptimizer, before: tuple[list[Tensor], list[Tensor], dict[str, object]]
) -> None:
    now = everything(optimizer)
    for old, new in zip(before[:2], now[:2], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(old, new, strict=True))
    assert now[2]["param_groups"] == before[2]["param_groups"]
    old_state, new_state = before[2]["state"], now[2]["state"]
    assert old_state.keys() == new_state.keys()
    for key, values in old_state.items():
        assert values.keys() == new_state[key].keys()
        for name, value in values.items():
            other = new_state[key][name]
            assert torch.equal(value, other) if isinstance(value, Tensor) else value == other
