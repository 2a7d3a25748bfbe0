"""While a CUDA graph is recorded, a parameter without a fused step is named, with the reason."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.step import plan, recording
from colangevin.step.fused import eligible

Make = Callable[[list[dict[str, Any]]], torch.optim.Optimizer]


def sgd(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    return cl.ConstrainedSGD(groups, 0.1, momentum=0.9)


def gap(tensor: Tensor) -> Tensor:
    return torch.cat((tensor, tensor), 1)[:, : tensor.shape[1]]


def noisy(splitting: str) -> Make:
    return lambda groups: cl.CoLud(groups, 0.1, friction=1.0, temperature=0.1, splitting=splitting, seed=0)


CASES: dict[str, tuple[cl.Constraint, Make, Callable[[Tensor], Tensor], str]] = {
    "constraint": (
        cl.Symmetric(),
        sgd,
        torch.clone,
        "Symmetric() has no fused step. Step its parameters outside of the graph.",
    ),
    "dtype": (
        cl.Free(),
        sgd,
        torch.Tensor.double,
        "Its dtype is torch.float64 and that of its gradient torch.float64. Use float32, bfloat16 or "
        "float16.",
    ),
    "gaps": (cl.Free(), sgd, gap, "Its strides (8, 1) leave gaps in memory. Make it contiguous."),
    "splitting": (
        cl.Sphere(9.0),
        noisy("BBOBA"),
        torch.clone,
        "splitting='BBOBA' has no fused step. Use each of A, B and O once, or 'BAOAB'.",
    ),
    "Adam": (
        cl.Orthogonal(),
        lambda groups: cl.ConstrainedAdam(groups, 0.1),
        torch.clone,
        "Adam has no fused step under Orthogonal(). Step it outside of the graph.",
    ),
    "noise in another order": (
        cl.Orthogonal(),
        noisy("OBA"),
        lambda tensor: tensor.mT.contiguous().mT,
        "Orthogonal() takes a fused step in channels_last without noise alone, and otherwise in the order of "
        "a contiguous weight. Make it contiguous.",
    ),
}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA graph is being recorded, as far as the plain path can tell."""
    monkeypatch.setattr(recording, "_recording", lambda device: True)
    monkeypatch.setattr(plan, "native", lambda entry, dynamics: False)


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("case", CASES)
def test_the_error_says_which_parameter_why_and_what_to_do(device, case):
    constraint, make, lies, why = CASES[case]
    start = constraint.init_(0.1 * torch.rand(4, 4), init="nearest")
    weight = nn.Parameter(lies(start).to(device))
    optimizer = make([{"params": [("layer.weight", weight)], "constraint": constraint}])
    weight.grad = lies(torch.ones(4, 4)).to(device)
    text = (
        "parameter 'layer.weight' (4, 4): a CUDA graph is being recorded, and the step of this parameter "
        f"waits for the device. {why}"
    )
    with pytest.raises(cl.ConstraintError, match=f"^{re.escape(text)}$"):
        optimizer.step()
    assert torch.equal(weight.detach(), lies(start).to(device))


@pytest.mark.usefixtures("recorded")
def test_a_gradient_that_lies_otherwise(device):
    weight = nn.Parameter(torch.ones(4, 3).to(device))
    optimizer = sgd([{"params": [("w", weight)]}])
    weight.grad = torch.ones(3, 4).to(device).mT
    with pytest.raises(
        cl.ConstraintError,
        match=re.escape("Its gradient has strides (1, 4) and it (3, 1). Give both one memory format."),
    ):
        optimizer.step()


@pytest.mark.usefixtures("recorded")
def test_a_momentum_that_a_step_without_one_carries_on(device):
    weight = nn.Parameter(torch.ones(4, 3).to(device))
    optimizer = sgd([{"params": [("w", weight)]}])
    weight.grad = torch.ones(4, 3).to(device)
    optimizer.step()
    optimizer.param_groups[0]["momentum"] = 0.0
    with pytest.raises(
        cl.ConstraintError, match=r"It has a momentum, which a step without one carries on. Build a new"
    ):
        optimizer.step()


@pytest.mark.usefixtures("recorded")
def test_two_os_in_long_rows(device, monkeypatch):
    monkeypatch.setattr(eligible, "_WIDEST_ROW", 2)
    weight = nn.Parameter((0.1 * torch.rand(4, 4)).to(device))
    optimizer = noisy("OBOA")([{"params": [("w", weight)], "constraint": cl.Sphere(9.0)}])
    weight.grad = torch.ones_like(weight)
    with pytest.raises(
        cl.ConstraintError,
        match=r"splitting='OBOA' has no fused step for long rows. Use a splitting with one",
    ):
        optimizer.step()


@pytest.mark.usefixtures("recorded")
def test_without_triton(device, monkeypatch):
    monkeypatch.setattr(eligible, "triton_runs_on", lambda device: False)
    weight = nn.Parameter(torch.ones(4, 3, dtype=torch.float32).to(device))
    optimizer = sgd([{"params": [("w", weight)]}])
    weight.grad = torch.ones_like(weight)
    with pytest.raises(cl.ConstraintError, match=r"Fused steps need CUDA and Triton. Install triton."):
        optimizer.step()


@pytest.mark.gpu
def test_a_graph_that_is_really_recorded():
    weight = nn.Parameter(torch.eye(4, device="cuda"))
    optimizer = sgd([{"params": [("w", weight)], "constraint": cl.Symmetric()}])
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    torch.cuda.synchronize()
    with (
        pytest.raises(cl.ConstraintError, match="a CUDA graph is being recorded"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        optimizer.step()
    torch.cuda.synchronize()
