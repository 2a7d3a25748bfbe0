"""State dicts hold tensors and plain values; constraints are values that compare, hash and print."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim_db import (
    ConstraintCase,
    OptimizerCase,
    assert_identical,
    by_id,
    each_constraint,
    rows_in_balls,
    snapshot,
    sphere_and_plane,
    start,
    train,
    whole_table,
)

PLAIN = (int, float, str, bool, type(None))


def leaves(value: Any) -> list[Any]:
    """Everything in nested dicts, lists and tuples, keys included."""
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in (key, *leaves(each))]
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]


@whole_table
def test_state_dict_holds_only_tensors_and_plain_values(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    problem, opt = start(optimizer, constraint)
    train(problem, opt, 1)
    for leaf in leaves(opt.state_dict()):
        assert type(leaf) in {Tensor, *PLAIN}


@each_constraint
def test_state_dict_names_the_constraint(constraint: ConstraintCase) -> None:
    _, opt = start(by_id("colod"), constraint)
    described = opt.state_dict()["param_groups"][0]["constraint"]
    assert described["name"] == type(constraint.constraint).__name__
    assert opt.param_groups[0]["constraint"] == constraint.constraint


@each_constraint
def test_state_dict_keeps_what_the_next_step_needs_and_no_more(constraint: ConstraintCase) -> None:
    problem, opt = start(by_id("colud-OBA"), constraint)
    train(problem, opt, 1)
    keys = {"step", "momentum"} | ({"position"} if constraint.manifold.hidden else set())
    assert opt.state_dict()["state"][0].keys() == keys
    assert opt.state_dict()["state"][1].keys() == {"step", "momentum"}
    problem, opt = start(by_id("colod"), constraint)
    train(problem, opt, 1)
    assert opt.state_dict()["state"][0].keys() == keys - {"momentum"}


def test_loading_copies() -> None:
    problem, opt = start(by_id("colud-OBA"), by_id("circle"))
    train(problem, opt, 1)
    saved = opt.state_dict()
    other_problem, other = start(by_id("colud-OBA"), by_id("circle"))
    other.load_state_dict(saved)
    other_problem.load_state_dict(problem.state_dict())
    before = snapshot(opt)
    train(other_problem, other, 2)
    assert_identical(snapshot(opt), before)


def test_loading_does_not_change_the_state_dict() -> None:
    problem, opt = start(by_id("colud-OBA-noisy"), by_id("circle-radii"))
    train(problem, opt, 1)
    saved = copy.deepcopy(opt.state_dict())
    opt.load_state_dict(saved)
    assert_identical(saved, opt.state_dict())


def test_options_come_back_with_the_state() -> None:
    problem, opt = start(by_id("colud-OBA"), by_id("circle"))
    opt.param_groups[0]["lr"] = 0.123
    _, other = start(by_id("colud-OBA"), by_id("circle"))
    other.load_state_dict(opt.state_dict())
    assert other.param_groups[0]["lr"] == 0.123
    assert other.param_groups[0]["constraint"] == cl.Circle(0.5)
    assert other.param_groups[0]["params"][0] is not problem.weight


def test_state_of_an_unnamed_optimizer_loads_into_a_named_one() -> None:
    weight, other = (nn.Parameter(torch.full((2,), 0.1)) for _ in range(2))
    unnamed = cl.CoLod([{"params": [weight], "constraint": cl.Circle(1.0)}], 0.1)
    named = cl.CoLod([{"params": [("w", other)], "constraint": cl.Circle(1.0)}], 0.1)
    weight.grad = torch.ones(2)
    unnamed.step()
    named.load_state_dict(unnamed.state_dict())
    assert named.state[other]["step"] == 1
    assert list(cl.diagnostics.violation(named)) == ["w"]


def test_scheduler_resumes_with_the_optimizer() -> None:
    def build() -> tuple:
        problem, opt = start(by_id("sgd-momentum-noisy"), by_id("sphere-slack"))
        return problem, opt, torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10)

    def run(problem: nn.Module, opt: torch.optim.Optimizer, schedule: Any) -> None:
        for _ in range(3):
            train(problem, opt, 1)
            schedule.step()

    first = build()
    run(*first)
    second = build()
    for fresh, old in zip(second, first, strict=True):
        fresh.load_state_dict(copy.deepcopy(old.state_dict()))
    run(*first)
    run(*second)
    assert_identical(snapshot(second[1]), snapshot(first[1]))


# ---- constraints as values ------------------------------------------------------------------------

RADII = torch.tensor([0.1, 0.2])
VALUES = (
    (cl.Free(), cl.Free(), "Free()"),
    (cl.Circle(1), cl.Circle(1.0), "Circle(radius=1)"),
    (cl.Circle(0.05), cl.Circle(torch.tensor(0.05, dtype=torch.float64)), "Circle(radius=0.05)"),
    (cl.Circle(RADII), cl.Circle(RADII.clone()), "Circle(radius=tensor(2,) in [0.1, 0.2])"),
    (cl.Circle(2 * RADII), cl.Circle(RADII + RADII), "Circle(radius=tensor(2,) in [0.2, 0.4])"),
    (cl.Sphere(2), cl.Sphere(2.0, slack=True), "Sphere(radius=2, slack=True)"),
    (cl.Sphere(2, slack=False), cl.Sphere(2.0, False), "Sphere(radius=2, slack=False)"),
    (cl.Orthogonal(), cl.Orthogonal(), "Orthogonal()"),
    (
        cl.Implicit(sphere_and_plane),
        cl.Implicit(sphere_and_plane, inequality=False),
        "Implicit(g=tests.optim_db.sphere_and_plane, inequality=False)",
    ),
    (
        cl.Implicit(rows_in_balls, inequality=True),
        cl.Implicit(rows_in_balls, True),
        "Implicit(g=tests.optim_db.rows_in_balls, inequality=True)",
    ),
    (
        cl.Implicit(rows_in_balls),
        cl.Implicit(rows_in_balls),
        "Implicit(g=tests.optim_db.rows_in_balls, inequality=False)",
    ),
)
each_value = pytest.mark.parametrize(("one", "same", "words"), VALUES, ids=[value[2] for value in VALUES])


@each_value
def test_constraints_compare_by_content(one: cl.Constraint, same: cl.Constraint, words: str) -> None:
    assert one == same
    assert hash(one) == hash(same)
    others = [value[0] for value in VALUES if value[2] != words]
    assert all(one != other for other in others)
    assert one != words


@each_value
def test_repr(one: cl.Constraint, same: cl.Constraint, words: str) -> None:
    assert repr(one) == repr(same) == words


@each_value
def test_copies_and_pickles_are_equal(one: cl.Constraint, same: cl.Constraint, words: str) -> None:
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    ("constraint", "field"),
    [(cl.Circle(1.0), "radius"), (cl.Sphere(1.0), "slack"), (cl.Implicit(rows_in_balls), "inequality")],
    ids=repr,
)
def test_constraints_cannot_be_changed(constraint: cl.Constraint, field: str) -> None:
    with pytest.raises(AttributeError):
        setattr(constraint, field, 2.0)


@pytest.mark.parametrize("kind", [cl.Circle, cl.Sphere])
def test_constraint_keeps_its_own_copy_of_the_radius(kind: type[cl.Constraint]) -> None:
    radius = torch.ones(3)
    constraint = kind(radius)
    radius.fill_(5)
    assert constraint == kind(torch.ones(3))


@pytest.mark.parametrize("kind", [cl.Circle, cl.Sphere])
def test_what_a_constraint_hands_out_cannot_change_it(kind: type[cl.Constraint]) -> None:
    constraint = kind(torch.ones(3))
    constraint.describe()["radius"].fill_(5)
    constraint.radius.fill_(5)
    assert constraint == kind(torch.ones(3))
