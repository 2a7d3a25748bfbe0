"""A step under a general constraint that cannot land is an error and changes nothing."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

import colangevin as cl
from colangevin.optim.base import ConstrainedOptimizer
from tests.constraints.implicit_functions import figure_eight, inside_a_disc
from tests.constraints.implicit_runs import assert_same, assert_unchanged, everything, normal


class Breakable:
    """The unit sphere; once ``broken``, a function without a zero."""

    def __init__(self) -> None:
        self.broken = False

    def __call__(self, w: Tensor) -> Tensor:
        return w.square().sum() + 1 if self.broken else w.square().sum() - 1


def bystanders() -> list[dict[str, object]]:
    """Other groups of the optimizer, which may not move either when one group fails."""
    orthogonal = cl.Orthogonal().on((4, 3)).lift(normal(21, 1, 4, 3))[0]
    return [
        {"params": [Parameter(normal(22, 3))]},
        {"params": [Parameter(0.1 * torch.tanh(normal(23, 3)))], "constraint": cl.Circle(0.1)},
        {"params": [Parameter(orthogonal)], "constraint": cl.Orthogonal()},
        {
            "params": [Parameter(torch.tensor([0.6, 0.8], dtype=torch.float64))],
            "constraint": cl.Implicit(inside_a_disc, inequality=True),
        },
    ]


METHODS: dict[str, Callable[[list[dict[str, object]]], ConstrainedOptimizer]] = {
    "colod": lambda groups: cl.CoLod(groups, lr=0.1, temperature=0.01, seed=9),
    "colud": lambda groups: cl.CoLud(groups, lr=0.1, friction=1.0, temperature=0.01, seed=9),
    "sgd": lambda groups: cl.ConstrainedSGD(groups, lr=0.1, momentum=0.9, temperature=0.01, seed=9),
}


def give_gradients(optimizer: ConstrainedOptimizer, seed: int) -> None:
    for i, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            parameter.grad = normal(seed + i, *parameter.shape)


@pytest.mark.parametrize(("method", "steps_before"), [("colod", 0), ("colod", 3), ("colud", 0), ("colud", 3)])
def test_a_step_that_cannot_land_changes_nothing(method: str, steps_before: int) -> None:
    g = Breakable()
    sphere = Parameter(torch.tensor([0.6, 0.8, 0.0], dtype=torch.float64))
    groups = bystanders()
    groups.insert(2, {"params": [("ball", sphere)], "constraint": cl.Implicit(g)})
    for number, group in enumerate(groups):
        group["params"] = [
            pair if isinstance(pair, tuple) else (f"other-{number}", pair) for pair in group["params"]
        ]
    optimizer = METHODS[method](groups)
    for step in range(steps_before):
        give_gradients(optimizer, 30 + step)
        optimizer.step()
    give_gradients(optimizer, 40)
    before = everything(optimizer)
    g.broken = True
    # the first step lifts the weight, and lifting a weight that is off its manifold is an InfeasibleError
    expected = cl.ConvergenceError if steps_before else cl.InfeasibleError
    reason = r"no point with g = 0 .*Breakable\(w\)\[0\] = .*reduce lr" if steps_before else "is violated"
    with pytest.raises(expected, match=rf"parameter 'ball' \(3,\): .*{reason}"):
        optimizer.step()
    assert_unchanged(optimizer, before)
    g.broken = False
    optimizer.step()
    assert max(cl.diagnostics.violation(optimizer).values()) <= 1e-14


def test_a_failure_after_a_second_gradient_undoes_the_whole_step() -> None:
    """OABA drifts, asks for a gradient, kicks and drifts again: the second drift cannot land."""
    g = Breakable()
    sphere = Parameter(torch.tensor([0.6, 0.8, 0.0], dtype=torch.float64))
    optimizer = cl.CoLud(
        [*bystanders(), {"params": [sphere], "constraint": cl.Implicit(g)}],
        lr=0.1,
        friction=1.0,
        temperature=0.01,
        splitting="OABA",
        seed=10,
    )
    calls = []

    def closure() -> None:
        calls.append(None)
        give_gradients(optimizer, 60)
        g.broken = len(calls) == 4

    optimizer.step(closure)
    before = everything(optimizer)
    with pytest.raises(cl.ConvergenceError):
        optimizer.step(closure)
    assert len(calls) == 4
    assert_unchanged(optimizer, before)


def squared_sphere(w: Tensor) -> Tensor:
    """The unit sphere by a function whose gradient vanishes on it."""
    return (w.square().sum() - 1).square()


def whole_gram_matrix(w: Tensor) -> Tensor:
    """Orthonormal columns with every off-diagonal entry twice, so that components are redundant."""
    return w.T @ w - torch.eye(w.shape[1], dtype=w.dtype)


SINGULAR: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "vanishing gradient": (squared_sphere, torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)),
    "redundant components": (whole_gram_matrix, torch.eye(4, 2, dtype=torch.float64)),
    "crossing": (figure_eight, torch.zeros(2, dtype=torch.float64)),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SINGULAR)
def test_a_jacobian_without_full_rank_is_an_error_that_says_so(name: str, method: str) -> None:
    g, weight = SINGULAR[name]
    groups = [*bystanders(), {"params": [Parameter(weight.clone())], "constraint": cl.Implicit(g)}]
    optimizer = METHODS[method](groups)
    give_gradients(optimizer, 70)
    before = everything(optimizer)
    with pytest.raises(cl.ConvergenceError, match=r"Jacobian has rank \d for \d components.*redundant"):
        optimizer.step()
    assert_unchanged(optimizer, before)


def test_projecting_a_momentum_at_a_singular_point_is_an_error() -> None:
    J = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], dtype=torch.float64)
    with pytest.raises(cl.ConvergenceError, match="rank 1 for 2 components"):
        project_onto_kernel(J, torch.ones(3, dtype=torch.float64))


def test_nearly_parallel_components_still_project_to_rounding() -> None:
    """The normal equations square J's condition number, here 1e5; a second pass undoes the square."""
    J = torch.cat((normal(24, 1, 5), normal(24, 1, 5) + 1e-5 * normal(25, 1, 5)))
    p = normal(26, 5)
    projected = project_onto_kernel(J, p)
    assert float((J @ projected).abs().max()) <= 1e-14
    _, _, V = torch.linalg.svd(J)
    assert_same(projected, V[2:].T @ (V[2:] @ p), 1e-9)


def project_onto_kernel(J: Tensor, p: Tensor) -> Tensor:
    """The projection of a momentum under the constraint J w = 0."""
    return cl.Implicit(lambda w: J @ w).on(p.shape).tangent(torch.zeros_like(p)[None], p[None])[0]
