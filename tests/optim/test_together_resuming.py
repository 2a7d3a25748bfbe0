"""Checkpoints and copies of optimizers with parameters that one constraint holds together."""

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch

import colangevin as cl
from tests.optim.autoencoders import (
    BOTH,
    KINDS,
    PAIR,
    AutoEncoder,
    balanced,
    held,
    train,
)
from tests.optim_db import (
    OptimizerCase,
    assert_identical,
    by_id,
    each_optimizer,
    snapshot,
)

each_kind = pytest.mark.parametrize("kind", KINDS)
NOISY = by_id("colud-BAOAB-noisy")
QUIET = by_id("colud-OBA")


@each_kind
@each_optimizer
def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(optimizer: OptimizerCase, kind: str) -> None:
    model, groups = held(KINDS[kind])
    built = optimizer.build(groups)
    train(model, built, 3)
    file = io.BytesIO()
    torch.save((model.state_dict(), built.state_dict()), file)
    train(model, built, 3)
    file.seek(0)
    weights, state = torch.load(file, weights_only=True)
    other = AutoEncoder()
    other.load_state_dict(weights)
    resumed = optimizer.build(cl.constrain(other, {PAIR: KINDS[kind]}))
    resumed.load_state_dict(state)
    train(other, resumed, 3)
    assert_identical(snapshot(built), snapshot(resumed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_state_is_loaded_in_its_own_dtype(dtype: torch.dtype) -> None:
    model, groups = held(KINDS["bound"], dtype)
    optimizer = NOISY.build(groups)
    train(model, optimizer, 2)
    other = copy.deepcopy(model)
    loaded = NOISY.build(cl.constrain(other, {PAIR: KINDS["bound"]}))
    loaded.load_state_dict(optimizer.state_dict())
    assert_identical(snapshot(optimizer), snapshot(loaded))


@pytest.mark.parametrize(
    "other",
    [cl.Implicit(lambda a, b: a.sum(1) - b.sum(0)), cl.Implicit(balanced, inequality=True), None],
    ids=["code", "bound", "free"],
)
def test_a_state_of_another_constraint_is_refused_by_name(other: cl.Constraint | None) -> None:
    model, groups = held()
    optimizer = QUIET.build(groups)
    train(model, optimizer, 1)
    state = optimizer.state_dict()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    groups = [
        {"params": [(name, model.get_parameter(name)) for name in names], "constraint": constraint}
        for names, constraint in (
            (PAIR, cl.Free() if other is None else other.together([(3, 4), (4, 3)])),
            (("encoder.bias", "decoder.bias"), cl.Free()),
        )
    ]
    name = PAIR[0] if other is None else BOTH
    with pytest.raises(cl.ConstraintError, match=f"parameter '{name}' .*saved under Implicit.*shapes="):
        QUIET.build(groups).load_state_dict(state)


def test_a_state_without_their_momentum_is_refused() -> None:
    model, groups = held()
    optimizer = QUIET.build(groups)
    train(model, optimizer, 1)
    state = optimizer.state_dict()
    state["state"][0]["momentum"] = state["state"][0]["momentum"][:12]
    with pytest.raises(
        cl.ConstraintError, match=rf"'{BOTH}' \(24,\).* momentum of shape \(12,\).* needs \(24,\)"
    ):
        optimizer.load_state_dict(state)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["deepcopy", "pickle"]
)
def test_a_copy_goes_on_as_the_original(copied: Callable) -> None:
    model, groups = held()
    optimizer = NOISY.build(groups)
    train(model, optimizer, 2)
    other, twin = copied((model, optimizer))
    train(model, optimizer, 2)
    train(other, twin, 2)
    assert_identical(snapshot(optimizer), snapshot(twin))
