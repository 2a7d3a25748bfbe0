"""Fused Muon and the plain one agree, and so do both with half the products left out."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.dynamics import newton_schulz
from colangevin.step import plan
from colangevin.step.fused.muon import MuonMover
from colangevin.step.fused.muon_frames import MuonFramesMover

SHAPES = ((18, 24), (20, 9), (7, 7), (4, 2, 3, 3), (1, 7))
CONSTRAINTS = {
    "free": cl.Free(),
    "rows": cl.Sphere(2.0, slack=False),
    "kept rows": cl.Sphere(),
    "matrix": cl.Sphere(3.0, over="matrix", slack=False),
    "frames": cl.Orthogonal(),
}
MOVERS = {"frames": MuonFramesMover}
# of weights of size 1 after STEPS steps: roundings of float32, and those of products of 16-bit parts
TOLERANCES = {"frames": 2e-4}
STEPS = 3


@pytest.fixture
def float32_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newton-Schulz in float32 on both paths: in bfloat16 only its singular values agree."""
    monkeypatch.setattr(newton_schulz, "PRECISION", torch.float32)


def build(constraint: cl.Constraint, dtype: torch.dtype, device: torch.device) -> list[dict]:
    """Two matrices of every shape, the second with numbers of its own."""
    torch.manual_seed(0)
    groups = []
    for number, shape in enumerate(SHAPES + SHAPES):
        weight = torch.randn(shape)
        if constraint != cl.Sphere():
            constraint.init_(weight)
        parameter = nn.Parameter(weight.to(dtype).to(device))
        group = {"params": [(f"w{number}", parameter)], "constraint": constraint}
        if number >= len(SHAPES):
            group |= {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.3}
        groups.append(group)
    return groups


def run(groups: list[dict], steps: int = STEPS, edit: bool = False, **options) -> cl.ConstrainedMuon:
    optimizer = cl.ConstrainedMuon(groups, 0.05, **options)
    draw = torch.Generator().manual_seed(1)
    for step in range(steps):
        for group in optimizer.param_groups:
            for weight in group["params"]:
                weight.grad = torch.randn(weight.shape, generator=draw).to(weight)
                if edit and step == 2:
                    weight.detach().mul_(1.0002)
        optimizer.step()
    return optimizer


def weights(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def compare(monkeypatch, device, name: str, dtype: torch.dtype, tolerance: float, **options) -> None:
    fused = run(build(CONSTRAINTS[name], dtype, device), **options)
    assert {type(mover) for mover in fused._plan.movers} == {MOVERS.get(name, MuonMover)}
    assert len(fused._plan.movers) == len(SHAPES)
    with monkeypatch.context() as patch:
        patch.setattr(plan, "family", lambda entry, dynamics: None)
        plain = run(build(CONSTRAINTS[name], dtype, device), **options)
        assert not plain._plan.watching
    for ours, oracle in zip(weights(fused), weights(plain), strict=True):
        torch.testing.assert_close(ours, oracle, rtol=0, atol=tolerance)
        assert fused.state[ours].keys() == plain.state[oracle].keys()
        for key, value in plain.state[oracle].items():
            torch.testing.assert_close(fused.state[ours][key], value, rtol=0, atol=tolerance)
    assert max(cl.diagnostics.violation(fused).values()) <= 1e-5
    assert max([0.0, *cl.diagnostics.cotangency(fused).values()]) <= 4e-5


@pytest.mark.parametrize("options", [{}, {"nesterov": False}, {"maximize": True}, {"edit": True}], ids=str)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_matrices_of_every_shape(monkeypatch, device, float32_iteration, name, options):
    compare(monkeypatch, device, name, torch.float32, TOLERANCES.get(name, 2e-5), **options)
