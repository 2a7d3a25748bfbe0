"""Options of ConstrainedAdam and ConstrainedMuon that are out of range, and what they say."""

from typing import Any

import pytest
import torch
from torch import nn

import colangevin as cl

KINDS = pytest.mark.parametrize("kind", [cl.ConstrainedAdam, cl.ConstrainedMuon])


def weight() -> nn.Parameter:
    return nn.Parameter(torch.ones(2, 2))


@KINDS
def test_no_temperature_when_built(kind: type[torch.optim.Optimizer]) -> None:
    words = rf"temperature=0.1 in param_groups\[0\]: {kind.__name__} has none, .* with CoLud, CoLod or"
    with pytest.raises(cl.ConstraintError, match=words):
        kind([weight()], 0.1, temperature=0.1)
    with pytest.raises(cl.ConstraintError, match=words):
        kind([{"params": [weight()], "temperature": 0.1}], 0.1)


@KINDS
def test_no_temperature_later(kind: type[torch.optim.Optimizer]) -> None:
    parameter = weight()
    optimizer = kind([parameter], 0.1)
    optimizer.param_groups[0]["temperature"] = 0.1
    parameter.grad = torch.ones(2, 2)
    with pytest.raises(cl.ConstraintError, match=r"temperature=0.1 in param_groups\[0\]: .* has none"):
        optimizer.step()
    assert torch.equal(parameter.detach(), torch.ones(2, 2))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"betas": 0.9}, r"betas=0.9 in param_groups\[0\]: must be two numbers, each at least 0 and below 1"),
        ({"betas": (0.9,)}, r"betas=\(0.9,\) in param_groups\[0\]: must be two numbers"),
        ({"betas": (0.9, 1.0)}, r"betas\[1\]=1.0 in param_groups\[0\]: must be at least 0 and below 1"),
        ({"betas": (-0.1, 0.9)}, r"betas\[0\]=-0.1 in param_groups\[0\]: must be at least 0"),
        ({"eps": 0.0}, r"eps=0.0 in param_groups\[0\]: must be above 0"),
        ({"eps": -1.0}, r"eps=-1.0 in param_groups\[0\]: must be finite and >= 0"),
        ({"lr": -1.0}, r"lr=-1.0 in param_groups\[0\]: must be finite and >= 0"),
    ],
    ids=str,
)
def test_adam(options: dict[str, Any], words: str) -> None:
    with pytest.raises(cl.ConstraintError, match=words):
        cl.ConstrainedAdam([weight()], **{"lr": 0.1, **options})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"momentum": 1.0}, r"momentum=1.0 in param_groups\[0\]: must be at least 0 and below 1"),
        ({"nesterov": "yes"}, r"nesterov='yes' in param_groups\[0\]: must be True or False"),
        ({"ns_steps": 0}, r"ns_steps=0 in param_groups\[0\]: must be a whole number from 1 to 99"),
        ({"ns_steps": 2.5}, r"ns_steps=2.5 in param_groups\[0\]: must be a whole number"),
        ({"ns_coefficients": (1, 2)}, r"ns_coefficients=\(1, 2\) in .*: must be three finite numbers"),
        ({"ns_coefficients": (1, 2, "c")}, r"ns_coefficients=.* in .*: must be three finite numbers"),
        (
            {"adjust_lr_fn": "rms"},
            r"adjust_lr_fn='rms' in .*: must be 'original' or 'match_rms_adamw'",
        ),
        ({"method": "sgd"}, r"method='sgd' in param_groups\[0\]: must be 'muon' or 'adam'"),
        ({"adam_betas": (0.9, 2.0)}, r"adam_betas\[1\]=2.0 in .*: must be at least 0 and below 1"),
        ({"adam_eps": 0.0}, r"adam_eps=0.0 in param_groups\[0\]: must be above 0"),
        ({"eps": 0.0}, r"eps=0.0 in param_groups\[0\]: must be above 0"),
    ],
    ids=str,
)
def test_muon(options: dict[str, Any], words: str) -> None:
    with pytest.raises(cl.ConstraintError, match=words):
        cl.ConstrainedMuon([{"params": [weight()], **options}], 0.1)


@pytest.mark.parametrize("lacking", ["momentum", "second_moment"])
def test_a_state_dict_without_a_moment(lacking: str) -> None:
    parameter = weight()
    optimizer = cl.ConstrainedAdam([parameter], 0.1)
    parameter.grad = torch.ones(2, 2)
    optimizer.step()
    saved = optimizer.state_dict()
    del saved["state"][0][lacking]
    with pytest.raises(cl.ConstraintError, match=f"the state dict holds no '{lacking}' for it"):
        optimizer.load_state_dict(saved)


def test_a_state_dict_with_a_negative_square() -> None:
    parameter = weight()
    optimizer = cl.ConstrainedAdam([parameter], 0.1)
    parameter.grad = torch.ones(2, 2)
    optimizer.step()
    saved = optimizer.state_dict()
    saved["state"][0]["second_moment"] = -torch.ones(2, 2)
    with pytest.raises(cl.ConstraintError, match="holds negative numbers in its second_moment"):
        optimizer.load_state_dict(saved)


@KINDS
def test_momenta_have_no_temperature(kind: type[torch.optim.Optimizer]) -> None:
    """NaN where one asks for it; a monitor leaves it out."""
    parameter = weight()
    optimizer = kind([("weight", parameter)], 0.1)
    parameter.grad = torch.ones(2, 2)
    monitor = cl.diagnostics.Monitor(optimizer)
    optimizer.step()
    monitor.record()
    found = cl.diagnostics.kinetic_temperature(optimizer)["weight"]
    assert found != found
    assert "kinetic[0]" not in monitor.latest()
    assert monitor.report().groups[0].kinetic is None
