"""What is measured is the weights as they are, also where they were edited since the last step."""

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.diagnostics import Monitor, cotangency, kinetic_temperature, violation


def ball(w):
    return w.square().sum(1) - 1


def shell(w):
    return w.square().sum(1) - 1


CONSTRAINTS = {
    "circle": cl.Circle(1.0),
    "circle of many radii": cl.Circle(torch.linspace(1, 2, 12).view(4, 3)),
    "sphere with slack": cl.Sphere(1.0),
    "sphere": cl.Sphere(1.0, slack=False),
    "orthogonal": cl.Orthogonal(),
    "ball": cl.Implicit(ball, inequality=True),
    "shell": cl.Implicit(shell),
}
DTYPES = [torch.float64, torch.float32, torch.bfloat16]
# |g| of an edited weight, which is only a rounding of a feasible one: a few last places of its rows
TOLERANCE = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 2e-2}


def feasible(constraint, seed):
    torch.manual_seed(seed)
    weight = 0.2 * torch.randn(4, 3, dtype=torch.float64)
    if isinstance(constraint, cl.Orthogonal):
        return torch.linalg.qr(weight)[0]
    if constraint in (CONSTRAINTS["sphere"], CONSTRAINTS["shell"]):
        return weight / weight.norm(dim=1, keepdim=True)
    return weight


@pytest.fixture(params=CONSTRAINTS)
def constraint(request):
    return CONSTRAINTS[request.param]


def trained(constraint, dtype=torch.float32, steps=3):
    """A weight that has moved, and its optimizer."""
    weight = nn.Parameter(feasible(constraint, 0).to(dtype))
    group = {"params": [("w", weight)], "constraint": constraint}
    opt = cl.CoLud([group], 0.1, friction=1.0, temperature=0.01, seed=0)
    for _ in range(steps):
        weight.grad = torch.ones_like(weight)
        opt.step()
    return weight, opt


def edit(weight, values):
    with torch.no_grad():
        weight.copy_(values)


def edit_unseen(weight, values):
    weight.data.copy_(values)


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("change", [edit, edit_unseen])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_feasible_edit_violates_nothing(constraint, dtype, change, steps):
    weight, opt = trained(constraint, dtype, steps)
    change(weight, feasible(constraint, 1))
    assert violation(opt)["w"] <= TOLERANCE[dtype]
    monitor = Monitor(opt)
    monitor.record()
    assert monitor.report().groups[0].violation == violation(opt)["w"]


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_infeasible_edit_shows(constraint, dtype, steps):
    weight, opt = trained(constraint, dtype, steps)
    edit(weight, 20 * feasible(constraint, 1))
    alone = constraint.violation(weight)
    assert alone > 0.1
    assert violation(opt)["w"] >= 0.99 * alone
    monitor = Monitor(opt)
    monitor.record()
    assert monitor.report().groups[0].violation == violation(opt)["w"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_edit_of_one_replica_leaves_the_others_as_they_are(dtype):
    stack = torch.stack([feasible(cl.Sphere(1.0), seed) for seed in range(3)]).to(dtype)
    weight = nn.Parameter(stack)
    group = {"params": [("w", weight)], "constraint": cl.Sphere(1.0), "replicas": 3}
    opt = cl.CoLud([group], 0.1, friction=1.0, temperature=0.01, seed=0)
    weight.grad = torch.ones_like(weight)
    opt.step()
    with torch.no_grad():
        weight[1].mul_(10)
    monitor = Monitor(opt)
    monitor.record()
    found = monitor._records[0][0]["violation"]
    assert float(found[1]) > 0.1
    assert float(found[[0, 2]].max()) < 1e-6


def test_a_weight_that_no_configuration_fits_has_a_violation_all_the_same():
    """At 0 the Jacobian of the equation vanishes, so that Newton has no direction to go."""
    weight, opt = trained(CONSTRAINTS["shell"], torch.bfloat16)
    edit(weight, torch.zeros(4, 3))
    assert violation(opt)["w"] > 0.1
    with pytest.raises(cl.ConvergenceError, match=r"parameter 'w' \(1, 4, 3\): .*rank 0"):
        cotangency(opt)


@pytest.mark.parametrize("dtype", DTYPES)
def test_positions_are_those_of_the_edited_weight(constraint, dtype):
    """Work and divergence of an edited weight are those of a fresh optimizer at the same weight."""
    weight, opt = trained(constraint, dtype)
    monitor = Monitor(opt)
    edit(weight, feasible(constraint, 1))
    weight.grad = torch.ones_like(weight)
    monitor.record()
    edit(weight, feasible(constraint, 2))
    monitor.record()
    fresh = nn.Parameter(feasible(constraint, 1).to(dtype))
    group = {"params": [("w", fresh)], "constraint": constraint}
    other = Monitor(cl.CoLud([group], 0.1, friction=1.0, temperature=0.01, seed=0))
    fresh.grad = torch.ones_like(fresh)
    other.record()
    edit(fresh, feasible(constraint, 2))
    other.record()
    coarse = max(TOLERANCE[dtype], 1e-5 if dtype == torch.float32 else 0)
    for name in ("work", "divergence"):
        one, two = monitor._records[0][1][name], other._records[0][1][name]
        torch.testing.assert_close(one, two, rtol=10 * coarse, atol=10 * coarse)


def test_momenta_are_measured_where_the_weight_is():
    """After the edit the momentum is no longer along the sphere, and the next step makes it so again."""
    weight, opt = trained(cl.Sphere(1.0))
    assert cotangency(opt)["w"] < 1e-6
    before = kinetic_temperature(opt)
    edit(weight, feasible(cl.Sphere(1.0), 1))
    assert cotangency(opt)["w"] > 1e-2
    assert kinetic_temperature(opt) == before
    opt.step()
    assert cotangency(opt)["w"] < 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
def test_measuring_changes_nothing(constraint, dtype):
    """A run that is measured after an edit goes on, bit for bit, as one that is not."""
    found = []
    for measured in (False, True):
        weight, opt = trained(constraint, dtype)
        edit(weight, feasible(constraint, 1))
        if measured:
            violation(opt)
            Monitor(opt).record()
        opt.step()
        found.append(weight.detach().clone())
    assert torch.equal(*found)


def test_autocast_does_not_reach_the_measures():
    _, opt = trained(cl.Orthogonal())
    expected = violation(opt), cotangency(opt), kinetic_temperature(opt)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (violation(opt), cotangency(opt), kinetic_temperature(opt)) == expected
        monitor = Monitor(opt)
        monitor.record()
    assert monitor.report().groups[0].violation == expected[0]["w"]
