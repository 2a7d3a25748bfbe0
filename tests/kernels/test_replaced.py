"""Fused steps of parameters that were replaced, resized or cast since the last one."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.step import plan

CONSTRAINTS = (cl.Free(), cl.Circle(0.5), cl.Sphere(2.0), cl.Sphere(2.0, slack=False), cl.Orthogonal())
each_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)


def placed(constraint: cl.Constraint, *shape: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return constraint.init_(0.1 * torch.randn(shape, generator=draw))


def moved(optimizer: torch.optim.Optimizer, weight: Tensor, seed: int = 1) -> None:
    draw = torch.Generator().manual_seed(seed)
    weight.grad = torch.randn(weight.shape, generator=draw).to(weight)
    optimizer.step()


@each_constraint
def test_a_parameter_put_in_place_of_another_is_the_one_that_moves(device, constraint):
    old, new = (nn.Parameter(placed(constraint, 6, 4, seed=s).to(device)) for s in (0, 1))
    optimizer = cl.CoLud([{"params": [old], "constraint": constraint}], 0.1, friction=1.0)
    moved(optimizer, old)
    assert optimizer._plan.watching
    kept, start = old.detach().clone(), new.detach().clone()
    optimizer.param_groups[0]["params"][0] = new
    moved(optimizer, new)
    assert torch.equal(old.detach(), kept)
    assert not torch.equal(new.detach(), start)


@each_constraint
def test_a_shrunk_parameter_is_not_written_past_its_end(device, constraint):
    memory = torch.cat((placed(constraint, 8, 4), torch.full((4, 4), 0.125))).to(device)
    weight = nn.Parameter(memory[:8])
    optimizer = cl.CoLod([{"params": [weight], "constraint": constraint}], 0.1, temperature=0.1, seed=0)
    moved(optimizer, weight)
    assert optimizer._plan.watching
    optimizer.state.clear()
    weight.data = memory[:4]
    if isinstance(constraint, cl.Orthogonal):
        weight.data.copy_(placed(constraint, 4, 4))
    before = memory.clone()
    moved(optimizer, weight)
    assert not torch.equal(memory[:4], before[:4])
    assert torch.equal(memory[4:], before[4:])


@each_constraint
def test_a_resized_parameter_with_state_is_refused(device, constraint):
    memory = placed(constraint, 8, 4).to(device)
    weight = nn.Parameter(memory.clone())
    optimizer = cl.CoLud([{"params": [("w", weight)], "constraint": constraint}], 0.1, friction=1.0)
    moved(optimizer, weight)
    weight.data = placed(constraint, 4, 4).to(device)
    with pytest.raises(cl.ConstraintError, match=r"parameter 'w' \(4, 4\): its \w+ has shape"):
        moved(optimizer, weight)


@each_constraint
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_a_parameter_that_was_cast_goes_on_as_on_the_plain_path(monkeypatch, device, constraint, dtype):
    def run() -> Tensor:
        weight = nn.Parameter(placed(constraint, 6, 4).to(device))
        optimizer = cl.CoLud([{"params": [weight], "constraint": constraint}], 0.1, friction=1.0)
        moved(optimizer, weight, 1)
        weight.data = weight.data.to(dtype)
        moved(optimizer, weight, 2)
        return weight.detach().float()

    fused = run()
    monkeypatch.setattr(plan, "family", lambda entry, dynamics: None)
    torch.testing.assert_close(fused, run(), rtol=0, atol=2e-5 if dtype == torch.float64 else 1.6e-2)


@pytest.mark.parametrize("size", [1.0, 1e4])
@pytest.mark.parametrize("shape", [(64, 32), (32, 64), (32, 32), (1, 1)], ids=str)
@pytest.mark.parametrize("splitting", ["OBA", "BAOAB"])
def test_gradients_along_the_normal_stay_on_the_manifold(device, size, shape, splitting):
    weight = nn.Parameter(placed(cl.Orthogonal(), *shape).to(device))
    groups = [{"params": [weight], "constraint": cl.Orthogonal()}]
    optimizer = cl.CoLud(groups, 0.3, friction=1.0, splitting=splitting)
    for _ in range(3):
        weight.grad = size * weight.detach()
        optimizer.step()
    assert optimizer._plan.watching
    assert cl.diagnostics.violation(optimizer).popitem()[1] <= 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("size", [1e6, 1e10])
@pytest.mark.parametrize("shape", [(64, 32), (32, 64), (32, 32), (1, 1)], ids=str)
def test_huge_gradients_along_the_normal_stay_on_the_manifold(size, shape):
    """Triton's interpreter multiplies parts of 16 bits that do not hold these."""
    test_gradients_along_the_normal_stay_on_the_manifold(torch.device("cuda"), size, shape, "OBA")


@pytest.mark.gpu
@each_constraint
def test_a_step_under_autocast_is_the_same(constraint):
    device = torch.device("cuda")

    def run(enabled: bool) -> Tensor:
        weight = nn.Parameter(placed(constraint, 64, 48).to(device))
        optimizer = cl.CoLud([{"params": [weight], "constraint": constraint}], 0.1, friction=1.0)
        with torch.autocast("cuda", torch.bfloat16, enabled=enabled):
            for seed in range(3):
                moved(optimizer, weight, seed)
        return weight.detach()

    assert torch.equal(run(True), run(False))
