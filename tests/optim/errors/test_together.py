"""Errors about parameters that one constraint holds together."""

import re

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.optim.autoencoders import BALANCED, BOTH, PAIR, AutoEncoder, balanced, held

KNOWN = "Its parameters are: encoder.weight, encoder.bias, decoder.weight, decoder.bias."


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            {("encoder.weight", "decoder.*"): BALANCED},
            "rule ('encoder.weight', 'decoder.*'): AutoEncoder has no parameter 'decoder.*'. The names of a "
            f"tuple are whole names, not globs. {KNOWN}",
        ),
        (
            {("encoder.weight", "encoder.weight"): BALANCED},
            "rule ('encoder.weight', 'encoder.weight'): two of its names are those of one parameter. Name "
            "each once, and write g so.",
        ),
        (
            {"*.bias": None, "decoder.*": cl.Circle(2.0), PAIR: BALANCED},
            f"rule {PAIR}: 'decoder.weight' is held by an earlier rule, Circle(radius=2), and the first "
            "rule wins. A parameter has one rule: put this one first.",
        ),
        (
            {PAIR: cl.Orthogonal()},
            "Orthogonal(): holds each weight by itself. Give each its own rule, or say what holds for "
            "several with colangevin.Implicit(g), whose g takes them as arguments.",
        ),
        (
            {PAIR: cl.Implicit(torch.sum, over="rows")},
            "over='rows' with several weights: g takes whole weights then. Leave over out, and return what "
            "holds for each part as one vector.",
        ),
    ],
    ids=["glob", "twice", "held", "alone", "rows"],
)
def test_a_rule_that_cannot_hold_them(rules: dict, message: str) -> None:
    model = AutoEncoder()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(cl.ConstraintError, match=re.escape(message)):
        cl.constrain(model, rules)
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


def test_a_later_rule_does_not_take_one_of_them() -> None:
    groups = cl.constrain(AutoEncoder(), {PAIR: BALANCED, "*.weight": cl.Circle(2.0)})
    assert [type(group["constraint"]) for group in groups] == [cl.Implicit, cl.Free]


def test_tied_names_are_those_of_one_parameter() -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    model["b"].weight = model["a"].weight
    with pytest.raises(cl.ConstraintError, match="two of its names are those of one parameter"):
        cl.constrain(model, {("a.weight", "b.weight"): BALANCED})


def test_a_frozen_one() -> None:
    model = AutoEncoder()
    model.decoder.weight.requires_grad_(False)
    message = re.escape(
        "parameter 'decoder.weight' (4, 3): is frozen (requires_grad=False), and "
        f"{BALANCED!r} holds it together with others ({BOTH}), so it would have to move. Unfreeze it, or "
        "write g for the others alone."
    )
    with pytest.raises(cl.ConstraintError, match=message):
        cl.constrain(model, {PAIR: BALANCED}, init="nearest")


def test_one_that_is_frozen_later() -> None:
    model, groups = held()
    optimizer = cl.CoLud(groups, 0.1, friction=1.0)
    model.encoder.weight.grad = torch.ones_like(model.encoder.weight)
    optimizer.step()
    model.decoder.weight.requires_grad_(False)
    before = model.encoder.weight.detach().clone()
    with pytest.raises(
        cl.ConstraintError, match=r"'decoder.weight' \(4, 3\): was frozen .*Unfreeze it, freeze all of them"
    ):
        optimizer.step()
    assert torch.equal(before, model.encoder.weight)
    model.encoder.weight.grad = None
    optimizer.step()


def test_another_dtype() -> None:
    model = AutoEncoder()
    model.decoder.float()
    with pytest.raises(
        cl.ConstraintError,
        match=r"'decoder.weight' \(4, 3\): is torch.float32 on cpu, and Implicit.* holds it together with "
        r"others .*of which 'encoder.weight' is torch.float64 on cpu. Give them one dtype and one device.",
    ):
        cl.constrain(model, {PAIR: BALANCED}, init="nearest")


def test_a_sparse_gradient() -> None:
    model, groups = held()
    optimizer = cl.CoLud(groups, 0.1, friction=1.0)
    model.encoder.weight.grad = torch.ones_like(model.encoder.weight)
    model.decoder.weight.grad = torch.eye(4, 3, dtype=torch.float64).to_sparse()
    with pytest.raises(cl.ConstraintError, match=rf"parameter '{BOTH}' \(24,\): sparse gradients"):
        optimizer.step()


@pytest.mark.parametrize("kept", [[0], [1], [1, 0]])
def test_a_group_that_lost_or_turned_them(kept: list[int]) -> None:
    _, (joint, _) = held()
    params = [joint["params"][i] for i in kept]
    message = (
        r"in param_groups\[0\]: it holds weights of shapes \(\(3, 4\), \(4, 3\)\) together, and the group"
    )
    with pytest.raises(cl.ConstraintError, match=message + ".*Keep the parameters of a rule"):
        cl.CoLod([{**joint, "params": params}], 0.1)


def test_one_that_is_given_another_shape() -> None:
    model, groups = held()
    optimizer = cl.CoLod(groups, 0.1)
    model.decoder.weight.data = torch.zeros(5, 3, dtype=torch.float64)
    model.encoder.weight.grad = torch.zeros_like(model.encoder.weight)
    with pytest.raises(
        cl.ConstraintError, match=r"the group has 'encoder.weight' \(3, 4\), 'decoder.weight' \(5"
    ):
        optimizer.step()


def test_a_joint_constraint_on_one_weight() -> None:
    constraint = BALANCED.together([(3, 4), (4, 3)])
    with pytest.raises(
        cl.ConstraintError, match=r"\(3, 4\): Implicit.* holds 2 weights together. Give it a group"
    ):
        constraint.check(torch.zeros(3, 4))


def test_a_g_that_takes_other_weights() -> None:
    with pytest.raises(RuntimeError, match="size"):
        cl.constrain(AutoEncoder(), {PAIR: cl.Implicit(lambda a, b: (a - b).flatten())})
    with pytest.raises(TypeError, match="positional argument"):
        cl.constrain(AutoEncoder(), {PAIR: cl.Implicit(lambda a: a.flatten())})


def test_one_that_has_nan() -> None:
    model = AutoEncoder()
    with torch.no_grad():
        model.decoder.weight[0, 0] = torch.nan
    with pytest.raises(cl.InfeasibleError, match=rf"parameter '{BOTH}' \(24,\): 1 entries are NaN or Inf"):
        cl.constrain(model, {PAIR: BALANCED})


def test_zero_redundancy_would_tear_them_apart() -> None:
    _, groups = held()
    message = (
        rf"{BOTH}: Implicit.* holds these parameters together, and ZeroRedundancyOptimizer gives each to"
    )
    with pytest.raises(cl.ConstraintError, match=message):
        groups.names_apart()


def test_project_needs_all_of_them() -> None:
    model, groups = held()
    groups[0]["params"] = groups[0]["params"][:1]
    with pytest.raises(cl.ConstraintError, match=r"in groups\[0\]: it holds weights of shapes"):
        cl.project_(model, groups)


def test_replicas_of_other_numbers() -> None:
    replicas = cl.Replicas(lambda: AutoEncoder(), 2, seed=0)
    (joint, _) = replicas.constrain({PAIR: cl.Implicit(balanced)}, init="nearest")
    with pytest.raises(cl.ConstraintError, match="it holds weights of shapes"):
        cl.CoLod([{**joint, "replicas": 0}], 0.1)
