"""Options of groups that an optimizer would not follow: an error, or followed."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import colangevin as cl


def parameter() -> nn.Parameter:
    made = nn.Parameter(torch.zeros(3))
    made.grad = torch.ones(3)
    return made


@pytest.mark.parametrize(
    ("kind", "option", "value", "words"),
    [
        (cl.ConstrainedAdam, "amsgrad", True, "ConstrainedAdam has no such option. Leave it out."),
        (cl.ConstrainedAdam, "decoupled_weight_decay", False, "Leave it out."),
        (cl.ConstrainedAdam, "differentiable", True, "Leave it out."),
        (cl.ConstrainedMuon, "betas", (0.5, 0.5), "say adam_betas instead."),
        (cl.CoLud, "nesterov", True, "CoLud has no such option. Leave it out."),
        (cl.CoLud, "dampening", 0.5, "Leave it out."),
        (cl.CoLod, "momentum", 0.9, "CoLod has no such option."),
    ],
)
def test_an_option_of_torch_that_is_not_followed_is_refused(
    kind: type[Any], option: str, value: object, words: str
) -> None:
    options = {"friction": 1.0} if kind is cl.CoLud else {}
    with pytest.raises(cl.ConstraintError, match=re.escape(f"{option}={value!r} in param_groups[0]: ")) as e:
        kind([{"params": [parameter()], option: value}], lr=0.1, **options)
    assert words in str(e.value)


def test_options_that_say_what_is_done_anyway_are_accepted() -> None:
    group = {"params": [parameter()], "amsgrad": False, "capturable": True, "differentiable": False}
    cl.ConstrainedAdam([{**group, "decoupled_weight_decay": True}], lr=0.1).step()
    cl.ConstrainedSGD([{"params": [parameter()], "nesterov": False, "dampening": 0}], lr=0.1).step()


def test_numbers_of_a_list_may_change_in_place() -> None:
    ours, theirs = parameter(), parameter()
    optimizers = [
        cl.ConstrainedAdam([{"params": [ours], "betas": [0.9, 0.999]}], lr=0.1),
        torch.optim.AdamW([{"params": [theirs], "betas": [0.9, 0.999]}], 0.1, weight_decay=0, foreach=False),
    ]
    for optimizer in optimizers:
        optimizer.step()
        optimizer.param_groups[0]["betas"][0] = 0.0
    for each, optimizer in zip((ours, theirs), optimizers, strict=True):
        each.grad = -torch.ones(3)
        optimizer.step()
    torch.testing.assert_close(ours, theirs)


def test_numbers_of_numpy_become_plain_ones(tmp_path) -> None:
    betas = (np.float64(0.9), np.float64(0.99))
    adam = cl.ConstrainedAdam([parameter()], lr=0.1, betas=betas)
    muon = cl.ConstrainedMuon([nn.Parameter(torch.eye(3))], 0.1, ns_coefficients=np.array([3.4, -4.7, 2.0]))
    for optimizer in (adam, muon):
        for each in optimizer.param_groups[0]["params"]:
            each.grad = torch.ones_like(each)
        optimizer.step()
        torch.save(optimizer.state_dict(), tmp_path / "state.pt")
        torch.load(tmp_path / "state.pt", weights_only=True)


def test_muon_s_state_does_not_serve_adam() -> None:
    weight = nn.Parameter(torch.randn(6, 4))
    optimizer = cl.ConstrainedMuon([("w", weight)], 0.02)
    for _ in range(3):
        weight.grad = torch.randn(6, 4)
        optimizer.step()
    optimizer.param_groups[0].update(method="adam", lr=1e-3)
    before = weight.detach().clone()
    with pytest.raises(
        cl.ConstraintError, match=r"'w' \(6, 4\): it has taken 3 steps of another kind, .* without"
    ):
        optimizer.step()
    assert torch.equal(weight, before)
    optimizer.param_groups[0].update(method="muon", lr=0.02)
    optimizer.step()


def test_a_state_without_the_average_of_squares_is_refused() -> None:
    model = nn.Linear(4, 4)
    optimizer = cl.ConstrainedMuon(model.named_parameters(), 0.02)
    for each in model.parameters():
        each.grad = torch.ones_like(each)
    optimizer.step()
    state = optimizer.state_dict()
    del state["state"][1]["second_moment"]
    with pytest.raises(cl.ConstraintError, match=r"bias.* holds no 'second_moment'"):
        optimizer.load_state_dict(state)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("constriant", "constraint"),
        ("constraints", "constraint"),
        ("temprature", "temperature"),
        ("beta", "betas"),
    ],
)
def test_a_misspelt_option_is_refused(key: str, meant: str) -> None:
    kind = cl.ConstrainedAdam if meant == "betas" else cl.CoLod
    with pytest.raises(cl.ConstraintError, match=rf"{key}=1 in param_groups\[0\]: .* Write '{meant}', if"):
        kind([{"params": [parameter()], key: 1}], lr=0.1)


def test_keys_of_others_are_kept() -> None:
    keys = (
        "initial_lr",
        "max_lr",
        "max_momentum",
        "base_momentum",
        "no_weight_decay",
        "name",
        "lr_scale",
        "swa_lr",
    )
    made = cl.ConstrainedSGD([{"params": [parameter()], **dict.fromkeys(keys, 1)}], lr=0.1, momentum=0.9)
    assert set(keys) <= made.param_groups[0].keys()


def test_constrain_says_what_it_takes() -> None:
    with pytest.raises(TypeError, match=r"rules=\[Circle\(radius=1\)\]: must map names"):
        cl.constrain(nn.Linear(2, 2), [cl.Circle(1.0)])
    with pytest.raises(TypeError, match=r"model: dict is not a torch.nn.Module. Give"):
        cl.constrain({"a": 1}, {"a": cl.Circle(1.0)})
