"""General constraints without a closed form: steps land on the manifold and stay there."""

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

import colangevin as cl
from colangevin.optim.base import ConstrainedOptimizer
from tests.constraints.implicit_functions import HARD, inside_a_disc
from tests.constraints.implicit_runs import assert_same, normal, run_noisily


def starting_weight(name: str, dtype: torch.dtype = torch.float64) -> Tensor:
    g, shape = HARD[name]
    weight = normal(11, *shape)
    if name == "determinant":
        weight += 2 * torch.eye(3, dtype=torch.float64)
    if name == "spectral-norm":
        # init_ moves the largest singular value only, so the others must be below 1 before
        weight /= 0.8 * torch.linalg.matrix_norm(weight, 2)
    return cl.Implicit(g).init_(weight.to(dtype))


@pytest.mark.parametrize("name", HARD)
def test_init_lands_to_rounding(name: str) -> None:
    g, _ = HARD[name]
    weight = starting_weight(name)
    assert float(g(weight).abs().max()) <= 1e-14
    assert cl.Implicit(g).violation(weight) <= 1e-15


@pytest.mark.parametrize("name", HARD)
def test_projection_lands_to_rounding_and_along_the_jacobian_at_the_start(name: str) -> None:
    g, shape = HARD[name]
    constraint = cl.Implicit(g).on(shape)
    weight = starting_weight(name)
    q = weight.flatten()
    step = normal(12, q.numel())
    q_bar = q + 0.05 * step / step.norm()
    q_new = constraint.project(q.unsqueeze(0), q_bar.unsqueeze(0))[0]
    assert float(g(q_new.view(shape)).abs().max()) <= 1e-14
    assert 0.01 < float((q_new - q).norm()) < 0.1
    J = torch.func.jacrev(lambda flat: g(flat.view(shape)).reshape(-1))(q)
    lam = torch.linalg.lstsq(J.T, (q_bar - q_new).unsqueeze(1)).solution
    assert_same(J.T @ lam, (q_bar - q_new).unsqueeze(1), 1e-14)


def product(w: Tensor) -> Tensor:
    """NaN where an entry is negative."""
    return w.log().sum()


@pytest.mark.parametrize("make", ["colod", "colud"])
def test_a_step_out_of_the_domain_of_g_is_shortened(make: str) -> None:
    parameter = Parameter(torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64))
    group = {"params": [parameter], "constraint": cl.Implicit(product)}
    optimizer = cl.CoLod([group], lr=1.0) if make == "colod" else cl.CoLud([group], lr=1.0, friction=1.0)
    parameter.grad = torch.tensor([0.0, 30.0, 0.0], dtype=torch.float64)
    optimizer.step()
    assert bool((parameter > 0).all())
    assert abs(float(product(parameter.detach()))) <= 1e-14
    assert max(cl.diagnostics.cotangency(optimizer).values(), default=0.0) <= 1e-14


def test_a_shortened_drift_leaves_the_momentum_of_its_chord() -> None:
    """RATTLE with the point that was reached: P + (q' - q_bar)/h = (q' - q)/h, projected at q'."""
    constraint = cl.Implicit(product).on((3,))
    q = torch.tensor([[0.5, 2.0, 1.0]], dtype=torch.float64)
    p = constraint.tangent(q, torch.tensor([[0.0, -30.0, 0.0]], dtype=torch.float64))
    q_new, p_new = constraint.drift(q, p, 1.0)
    assert float((q_new - q).norm()) < 0.5 * float(p.norm())
    assert_same(p_new, constraint.tangent(q_new, q_new - q), 1e-13)


def assert_on_hard_manifold(name: str, method: str, dtype: torch.dtype, steps: int) -> None:
    g, _ = HARD[name]
    parameter = Parameter(starting_weight(name, dtype))
    group = {"params": [parameter], "constraint": cl.Implicit(g)}
    if method == "colod":
        optimizer: ConstrainedOptimizer = cl.CoLod([group], lr=0.02, temperature=0.05, seed=7)
    else:
        optimizer = cl.CoLud([group], lr=0.1, friction=1.0, temperature=0.05, seed=7)
    first = parameter.detach().clone()
    # a landing is accepted within 32 roundings of q; how large |g| is there depends on the size of q
    tolerance = 33 * torch.finfo(dtype).eps
    path = run_noisily(optimizer, steps, tolerance)
    for weight in path:
        largest = max(1.0, float(weight.abs().max()))
        assert float(g(weight).abs().max()) <= 10 * tolerance * largest**3
    assert float((path[-1] - first).norm()) > 0.1


@pytest.mark.parametrize(("name", "method"), [(name, "colud") for name in HARD] + [("torus", "colod")])
def test_two_hundred_noisy_steps_stay_on_a_hard_manifold(name: str, method: str) -> None:
    assert_on_hard_manifold(name, method, torch.float64, steps=200)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("method", ["colod", "colud"])
@pytest.mark.parametrize("name", HARD)
def test_many_noisy_steps_stay_on_a_hard_manifold(name: str, method: str, dtype: torch.dtype) -> None:
    if name == "spectral-norm" and dtype == torch.float32:
        pytest.skip("where two singular values meet, rounding of the weight alone turns the Jacobian")
    assert_on_hard_manifold(name, method, dtype, steps=3000)


@pytest.mark.parametrize("method", ["colod", "colud"])
def test_an_inequality_holds_and_its_slack_changes_sign(method: str) -> None:
    """A weight leaves the bound by passing through xi = 0."""
    parameter = Parameter(torch.full((1, 2), 0.1, dtype=torch.float64))
    group = {"params": [parameter], "constraint": cl.Implicit(inside_a_disc, inequality=True)}
    if method == "colod":
        optimizer: ConstrainedOptimizer = cl.CoLod([group], lr=0.05, temperature=0.3, seed=8)
    else:
        optimizer = cl.CoLud([group], lr=0.3, friction=1.0, temperature=0.3, seed=8)
    slacks, values = [], []
    for step in range(200):
        parameter.grad = 0.1 * normal(2000 + step, 1, 2)
        optimizer.step()
        slacks.append(float(optimizer.state[parameter]["position"].flatten()[-1]))
        values.append(float(inside_a_disc(parameter.detach())))
        assert max(cl.diagnostics.violation(optimizer).values()) <= 1e-14
    assert max(values) <= 1e-15
    assert max(values) > -0.05, "the bound was never approached"
    changes = sum(a * b < 0 for a, b in itertools.pairwise(slacks))
    assert changes >= 3
