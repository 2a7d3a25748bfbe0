"""State dicts in other people's hands: loaded twice, hooked, copied, damaged, made by a step of length 0."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.optim_db import (
    ConstraintCase,
    OptimizerCase,
    assert_identical,
    by_id,
    each_constraint,
    snapshot,
    start,
    train,
)

OBA, CIRCLE = by_id("colud-OBA"), by_id("circle")
each_kind = pytest.mark.parametrize(
    "optimizer", [by_id(id) for id in ("colod", "colud-OBA-noisy", "sgd-momentum")], ids=lambda case: case.id
)


def trained(optimizer: OptimizerCase = OBA, constraint: ConstraintCase = CIRCLE) -> dict[str, Any]:
    problem, opt = start(optimizer, constraint)
    train(problem, opt, 2)
    return opt.state_dict()


@each_kind
@each_constraint
def test_a_state_dict_loads_as_often_as_one_likes(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    saved = trained(optimizer, constraint)
    _, opt = start(optimizer, constraint)
    for _ in range(3):
        opt.load_state_dict(saved)
        assert_identical(opt.state_dict()["state"], saved["state"])
        opt.load_state_dict(opt.state_dict())


@each_kind
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"]
)
def test_a_copy_loads(optimizer: OptimizerCase, copied: Callable[[Any], Any]) -> None:
    saved = trained(optimizer)
    _, opt = start(optimizer, by_id("circle"))
    opt.load_state_dict(copied(saved))
    other = copied(opt)
    other.load_state_dict(saved)
    assert_identical(other.state_dict()["state"], saved["state"])


# ---- hooks --------------------------------------------------------------------------------------------


def test_what_a_hook_makes_of_a_state_dict_is_loaded() -> None:
    saved = trained()
    _, opt = start(OBA, by_id("circle"))

    def doubled(_: object, state_dict: dict[str, Any]) -> dict[str, Any]:
        state_dict = copy.deepcopy(state_dict)
        for state in state_dict["state"].values():
            state["momentum"] *= 2
        return state_dict

    opt.register_load_state_dict_pre_hook(doubled)
    opt.load_state_dict(saved)
    for found, expected in zip(opt.state_dict()["state"].values(), saved["state"].values(), strict=True):
        assert_identical(found["momentum"], 2 * expected["momentum"])
    assert len(opt._optimizer_load_state_dict_pre_hooks) == 1


def test_what_a_hook_makes_of_a_state_dict_is_checked() -> None:
    _, opt = start(OBA, by_id("circle"))

    def spoil(_: object, state_dict: dict[str, Any]) -> None:
        state_dict["param_groups"] = state_dict["param_groups"][:1]

    opt.register_load_state_dict_pre_hook(spoil)
    before = snapshot(opt)
    with pytest.raises(cl.ConstraintError, match="it has 1 parameter groups, the optimizer 2"):
        opt.load_state_dict(trained())
    assert_identical(snapshot(opt), before)


def test_a_hook_that_mends_a_state_dict_is_heard() -> None:
    """One group was split in two since the state dict was saved."""
    whole = cl.CoLod([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))], 0.1)
    opt = cl.CoLod(
        [{"params": [nn.Parameter(torch.ones(2))]}, {"params": [nn.Parameter(torch.ones(3))]}], 0.2
    )

    def split(_: object, state_dict: dict[str, Any]) -> dict[str, Any]:
        (group,) = state_dict["param_groups"]
        return {**state_dict, "param_groups": [{**group, "params": [i]} for i in group["params"]]}

    opt.register_load_state_dict_pre_hook(split)
    opt.load_state_dict(whole.state_dict())
    assert [group["lr"] for group in opt.param_groups] == [0.1, 0.1]


def test_hooks_after_loading_see_the_constraints_and_the_precision() -> None:
    problem, opt = start(OBA, by_id("circle"), torch.bfloat16)
    train(problem, opt, 1)
    seen = []
    opt.register_load_state_dict_post_hook(
        lambda each: seen.append(
            (each.param_groups[0]["constraint"], each.state[problem.weight]["momentum"].dtype)
        )
    )
    opt.load_state_dict(opt.state_dict())
    assert seen == [(cl.Circle(0.5), torch.float32)]


def test_hooks_after_saving_see_plain_values() -> None:
    _, opt = start(OBA, by_id("circle"))
    seen = []
    opt.register_state_dict_post_hook(lambda _, saved: seen.append(saved["param_groups"][0]["constraint"]))
    opt.state_dict()
    assert seen == [{"name": "Circle", "radius": 0.5}]


# ---- damage -------------------------------------------------------------------------------------------


def edited(*path: Any, value: Any = None, remove: bool = False) -> Any:
    saved = copy.deepcopy(trained())
    place = saved
    for key in path[:-1]:
        place = place[key]
    if remove:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return saved


NAN = torch.full((4, 3), torch.nan)
DAMAGED: tuple[tuple[Callable[[], Any], str], ...] = (
    (lambda: None, "NoneType was given; must be what state_dict"),
    (lambda: edited("state", value=None), "its 'state' is None"),
    (lambda: edited("param_groups", remove=True), "its 'param_groups' is None"),
    (lambda: edited("param_groups", 0, value=None), "group 0 names no constraint"),
    (lambda: edited("param_groups", 0, "params", remove=True), "group 0 has no 'params'"),
    (lambda: edited("param_groups", 0, "friction", remove=True), "group 0 has no 'friction'"),
    (lambda: edited("param_groups", 0, "seed", remove=True), "group 0 has no 'seed'"),
    (
        lambda: edited("param_groups", 0, "lr", value=-5),
        r"lr=-5 in param_groups\[0\] of the state dict: must be",
    ),
    (
        lambda: edited("param_groups", 1, "lr", value="fast"),
        r"lr='fast' in param_groups\[1\] of the state dict",
    ),
    (lambda: edited("param_groups", 0, "friction", value=None), r"friction=None in param_groups\[0\]"),
    (
        lambda: edited("param_groups", 0, "seed", value=0.5),
        r"seed=0.5 in param_groups\[0\] of the state dict",
    ),
    (lambda: edited("param_groups", 0, "replicas", value=4), "group 0 has replicas=4, the optimizer's 0"),
    (lambda: edited("param_groups", 0, "splitting", value="AXB"), "unknown letter 'X'"),
    (
        lambda: edited("state", 0, value=None),
        r"parameter 'weight' \(4, 3\): the state dict holds None for it",
    ),
    (lambda: edited("state", 0, "step", value=2), "holds int 2 as its 'step', not a tensor"),
    (lambda: edited("state", 0, "step", value=torch.tensor(-1)), "one whole number, at least 0"),
    (lambda: edited("state", 0, "step", value=torch.tensor(2.0)), "one whole number, at least 0"),
    (lambda: edited("state", 0, "step", value=torch.ones(2, dtype=torch.int64)), "one whole number"),
    (lambda: edited("state", 0, "step", remove=True), "holds no 'step' for it"),
    (lambda: edited("state", 0, "momentum", remove=True), "holds no 'momentum' for it"),
    (lambda: edited("state", 0, "position", remove=True), "holds no 'position' for it"),
    (lambda: edited("state", 0, "momentum", value=None), "holds None as its 'momentum', not a tensor"),
    (lambda: edited("state", 0, "momentum", value=NAN), "holds NaN or Inf in its momentum"),
    (lambda: edited("state", 0, "position", value=NAN), "holds NaN or Inf in its position"),
    (lambda: edited("state", 0, "momentum", value=NAN.long()), "holds torch.int64 in its momentum"),
)


@pytest.mark.parametrize(("build", "message"), DAMAGED, ids=[message[:40] for _, message in DAMAGED])
def test_a_damaged_state_dict_changes_nothing(build: Callable[[], Any], message: str) -> None:
    problem, opt = start(OBA, by_id("circle"))
    train(problem, opt, 1)
    before, saved = snapshot(opt), build()
    with pytest.raises(cl.ConstraintError, match=message):
        opt.load_state_dict(saved)
    assert_identical(snapshot(opt), before)
    train(problem, opt, 1)


# ---- a step of length 0 makes the state ---------------------------------------------------------------


@each_constraint
@pytest.mark.parametrize("splitting", ["OBABO", "ABO"])
def test_a_step_of_length_zero_needs_no_closure_and_moves_nothing(
    constraint: ConstraintCase, splitting: str
) -> None:
    """torch.distributed.checkpoint takes such a step to have something to load into."""
    problem, opt = start(OBA, constraint, splitting=splitting, lr=0.0)
    before = problem.weight.detach().clone()
    problem.backward()
    opt.step(closure=None)
    assert_identical(problem.weight.detach(), before)
    full, full_opt = start(OBA, constraint, splitting=splitting)

    def closure() -> None:
        full.backward()

    full_opt.step(closure)
    made, expected = opt.state_dict()["state"], full_opt.state_dict()["state"]
    assert {i: state.keys() for i, state in made.items()} == {
        i: state.keys() for i, state in expected.items()
    }
    assert float(made[0]["momentum"].abs().max()) == 0
    opt.load_state_dict(full_opt.state_dict())


@each_kind
@each_constraint
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("stepped", [False, True], ids=["fresh", "stepped"])
def test_distributed_checkpoints_resume(
    optimizer: OptimizerCase, constraint: ConstraintCase, stepped: bool
) -> None:
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    problem, opt = start(optimizer, constraint)
    if stepped:
        train(problem, opt, 2)
    weights, state = get_state_dict(problem, opt)
    weights, state = copy.deepcopy(weights), copy.deepcopy(state)
    other, other_opt = start(optimizer, constraint)
    set_state_dict(other, other_opt, model_state_dict=weights, optim_state_dict=state)
    train(problem, opt, 2)
    train(other, other_opt, 2)
    assert_identical(other.weight.detach(), problem.weight.detach())
