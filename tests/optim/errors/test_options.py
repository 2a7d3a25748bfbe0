"""Options out of range, alone and in a group: the message names the option, its value and the group."""

import math
import re
from typing import Any

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.optim.errors.words import parameter, words
from tests.optim_db import OBA, Problem, assert_identical, by_id, snapshot, start, train

SPLITTINGS = (
    ("BAXOB", ("splitting='BAXOB': unknown letter 'X' at position 2;", "letters are A, B, O.")),
    ("oBA", ("splitting='oBA': unknown letter 'o' at position 0;",)),
    ("OB A", ("splitting='OB A': unknown letter ' ' at position 2;",)),
    ("OB", ("splitting='OB': letter 'A' is missing, so the drift", "use each of A, B and O")),
    ("OA", ("splitting='OA': letter 'B' is missing, so the gradient",)),
    ("BA", ("splitting='BA': letter 'O' is missing, so friction and temperature",)),
    ("", ("splitting='': letter 'A' is missing",)),
    (None, ("splitting=None: must be a string of the letters A, B and O.",)),
    (5, ("splitting=5: must be a string",)),
    (["O", "B", "A"], ("splitting=['O', 'B', 'A']: must be a string",)),
)


@pytest.mark.parametrize(("splitting", "message"), SPLITTINGS, ids=[repr(case[0]) for case in SPLITTINGS])
def test_splitting(splitting: object, message: tuple[str, ...]) -> None:
    with pytest.raises(cl.SplittingError, match=words(*message)):
        cl.CoLud([parameter(1.0)], 0.1, friction=1.0, splitting=splitting)


@pytest.mark.parametrize("splitting", ["ABO", "BABO", "OABA"])
def test_kick_after_drift_without_closure_changes_nothing(splitting: str) -> None:
    problem = Problem(by_id("circle"))
    groups = problem.groups()
    groups[1]["splitting"] = splitting
    opt = OBA.build(groups)
    problem.backward()
    before = snapshot(opt)
    message = words(f"splitting='{splitting}' in param_groups[1]", "Pass a closure to step()", "'OBA'")
    with pytest.raises(cl.SplittingError, match=message):
        opt.step()
    assert_identical(snapshot(opt), before)


BAD_NUMBERS = (math.nan, math.inf, -0.1, "0.1", None, True, torch.tensor(-1.0))
OPTIONS = (
    (cl.CoLod, ("lr", "temperature", "weight_decay")),
    (cl.CoLud, ("lr", "friction", "temperature", "weight_decay")),
    (cl.ConstrainedSGD, ("lr", "temperature", "weight_decay")),
)


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=repr)
@pytest.mark.parametrize(
    ("kind", "option"), [(kind, option) for kind, options in OPTIONS for option in options]
)
def test_option(kind: type[torch.optim.Optimizer], option: str, value: object) -> None:
    required = {"lr": 0.1, "friction": 1.0} if kind is cl.CoLud else {"lr": 0.1}
    message = words(f"{option}={value!r} in param_groups[0]: must be finite and >= 0.")
    with pytest.raises(cl.ConstraintError, match=message):
        kind([parameter(1.0)], **{**required, option: value})
    group = {"params": [parameter(1.0)], option: value}
    with pytest.raises(cl.ConstraintError, match=re.escape("param_groups[1]")):
        kind([{"params": [parameter(1.0)]}, group], **required)


@pytest.mark.parametrize(
    ("kind", "option"), [(kind, option) for kind, options in OPTIONS for option in options]
)
def test_option_for_each_replica(kind: type[torch.optim.Optimizer], option: str) -> None:
    options = {"lr": 0.1, "friction": 1.0} if kind is cl.CoLud else {"lr": 0.1}
    options[option] = torch.tensor([0.1, 0.2])
    for replicas in (0, 3):
        group = {"params": [nn.Parameter(torch.ones(3))], "replicas": replicas}
        start = f"{option}: a tensor of shape (2,) in param_groups[0], which has replicas={replicas}"
        with pytest.raises(cl.ConstraintError, match=words(start, "in a group of n replicas", "(n,)")):
            kind([group], **options)
    with pytest.raises(cl.ConstraintError, match=re.escape(f"{option}: a tensor of shape (0,)")):
        kind([parameter(1.0)], **{**options, option: torch.empty(0)})
    for bad in (-0.5, math.nan, math.inf):
        options[option] = torch.tensor([0.1, bad, 0.2])
        message = f"{option}[1]={bad} in param_groups[0]: must be finite and >= 0."
        with pytest.raises(cl.ConstraintError, match=re.escape(message)):
            kind([{"params": [nn.Parameter(torch.ones(3))], "replicas": 3}], **options)


def test_momentum_is_one_number() -> None:
    group = {"params": [parameter(1.0, 2.0)], "replicas": 2}
    message = words("momentum in param_groups[0]: a tensor of shape (2,)", "Use CoLud, whose friction")
    with pytest.raises(cl.ConstraintError, match=message):
        cl.ConstrainedSGD([group], 0.1, momentum=torch.tensor([0.8, 0.9]))


@pytest.mark.parametrize("momentum", [1, 1.5, -0.1, math.nan, "0.9"])
def test_momentum(momentum: object) -> None:
    message = f"momentum={momentum!r} in param_groups[0]: must be at least 0 and below 1."
    with pytest.raises(cl.ConstraintError, match=re.escape(message)):
        cl.ConstrainedSGD([parameter(1.0)], 0.1, momentum=momentum)


@pytest.mark.parametrize(("option", "value"), [("dampening", 0.5), ("nesterov", True)])
def test_momenta_of_sgd_that_are_not_classical(option: str, value: object) -> None:
    rule = "constrained dynamics has SGD's classical momentum alone."
    with pytest.raises(cl.ConstraintError, match=words(f"{option}={value} in ConstrainedSGD: {rule}")):
        cl.ConstrainedSGD([parameter(1.0)], 0.1, 0.9, **{option: value})
    with pytest.raises(cl.ConstraintError, match=words(f"{option}={value} in param_groups[0]: {rule}")):
        cl.ConstrainedSGD([{"params": [parameter(1.0)], option: value}], 0.1, 0.9)


@pytest.mark.parametrize("seed", [1.5, "7", True])
def test_seed(seed: object) -> None:
    with pytest.raises(cl.ConstraintError, match=re.escape(f"seed={seed!r}")):
        cl.CoLod([parameter(1.0)], 0.1, seed=seed)
    with pytest.raises(cl.ConstraintError, match=re.escape(f"seed={seed!r} in param_groups[0]")):
        cl.CoLod([{"params": [parameter(1.0)], "seed": seed}], 0.1, temperature=1.0)


@pytest.mark.parametrize("first", [1.0, "2", True, -1])
def test_first_replica(first: object) -> None:
    with pytest.raises(cl.ConstraintError, match=re.escape(f"first_replica={first!r} in param_groups[0]")):
        cl.CoLod([{"params": [parameter(1.0)], "first_replica": first}], 0.1)


@pytest.mark.parametrize("noise_by", [None, "names", 1])
def test_noise_by(noise_by: object) -> None:
    message = f"noise_by={noise_by!r} in param_groups[0]: must be 'name' or 'index'."
    with pytest.raises(cl.ConstraintError, match=re.escape(message)):
        cl.CoLod([{"params": [parameter(1.0)], "noise_by": noise_by}], 0.1)


def test_noise_by_names_that_parameters_do_not_have() -> None:
    message = words("noise_by='name' in param_groups[0]", "have none", "model.named_parameters()")
    with pytest.raises(cl.ConstraintError, match=message):
        cl.CoLod([{"params": [parameter(1.0)], "noise_by": "name"}], 0.1)


@pytest.mark.parametrize("replicas", [1.0, "2", True, -1])
def test_replicas(replicas: object) -> None:
    with pytest.raises(cl.ConstraintError, match=re.escape(f"replicas={replicas!r} in param_groups[0]")):
        cl.CoLod([{"params": [parameter(1.0)], "replicas": replicas}], 0.1)


def test_replicas_that_the_parameter_does_not_have() -> None:
    with pytest.raises(cl.ConstraintError, match=words("(2,): param_groups[0] has replicas=3", "must be 3")):
        cl.CoLod([{"params": [parameter(1.0, 2.0)], "replicas": 3}], 0.1)


def test_option_spoiled_during_the_run_changes_nothing() -> None:
    problem, opt = start(OBA, by_id("circle"))
    train(problem, opt, 1)
    problem.backward()
    opt.param_groups[1]["lr"] = math.nan
    weights = [p.detach().clone() for p in problem.parameters()]
    with pytest.raises(cl.ConstraintError, match=re.escape("lr=nan in param_groups[1]")):
        opt.step()
    assert_identical([p.detach() for p in problem.parameters()], weights)


REFUSED = (
    ({"constraint": cl.Circle(0.1)}, cl.InfeasibleError),
    ({"constraint": "circle"}, TypeError),
    ({"lr": -1.0}, cl.ConstraintError),
    ({"splitting": "BAD"}, cl.SplittingError),
    ({"constraint": cl.Orthogonal()}, cl.ConstraintError),
)


@pytest.mark.parametrize(("options", "error"), REFUSED)
def test_refused_group_leaves_the_optimizer_unchanged(
    options: dict[str, Any], error: type[Exception]
) -> None:
    problem, opt = start(OBA, by_id("circle"))
    train(problem, opt, 1)
    before = snapshot(opt)
    added = parameter(0.5, 0.2)
    with pytest.raises(error):
        opt.add_param_group({"params": [("added", added)], **options})
    assert_identical(snapshot(opt), before)
    train(problem, opt, 1)
    opt.add_param_group({"params": [("added", added)]})
    assert len(opt.param_groups) == 3
