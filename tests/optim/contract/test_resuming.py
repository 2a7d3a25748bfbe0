"""A run resumed from its state dict, a deep copy or a pickle goes on bit for bit."""

import copy
import pickle

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.optim.contract.cases import NOISY, through_file
from tests.optim_db import (
    ConstraintCase,
    OptimizerCase,
    Problem,
    assert_identical,
    by_id,
    each_constraint,
    kept_in,
    snapshot,
    start,
    train,
    whole_table,
)

COARSE = (torch.bfloat16, torch.float16)


@whole_table
def test_resume_is_bitwise(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    for dtype in (torch.float64, torch.float32):
        check_resume(optimizer, constraint, dtype)


@pytest.mark.parametrize("dtype", COARSE, ids=["bf16", "fp16"])
@each_constraint
@pytest.mark.parametrize("optimizer", [by_id("colod-noisy"), NOISY], ids=lambda case: case.id)
def test_resume_of_coarse_weights_is_bitwise_with_float32_state(
    optimizer: OptimizerCase, constraint: ConstraintCase, dtype: torch.dtype
) -> None:
    check_resume(optimizer, constraint, dtype)


def check_resume(optimizer: OptimizerCase, constraint: ConstraintCase, dtype: torch.dtype) -> None:
    problem, opt = start(optimizer, constraint, dtype)
    train(problem, opt, 3)
    saved = through_file({"model": problem.state_dict(), "optimizer": opt.state_dict()})
    train(problem, opt, 3)

    resumed = Problem(constraint, dtype, seed=1)
    fresh = optimizer.build(resumed.groups(), **({} if optimizer.preconditioned else {"seed": None}))
    resumed.load_state_dict(saved["model"])
    fresh.load_state_dict(saved["optimizer"])
    for group in fresh.param_groups:
        state = fresh.state[group["params"][0]]
        kept = kept_in(optimizer.cls, group["constraint"], dtype)
        assert all(v.dtype == kept for k, v in state.items() if k != "step")
    train(resumed, fresh, 3)
    assert_identical(snapshot(fresh), snapshot(opt))


@pytest.mark.parametrize("lr", [0.02, 1.0])  # the quasi-Newton and the polar projection
@pytest.mark.parametrize("shape", [(128, 64), (64, 64, 3, 3)])
def test_resume_of_large_orthogonal_weights_is_bitwise(shape: tuple[int, ...], lr: float) -> None:
    case = ConstraintCase("", cl.Orthogonal(), lambda g: nn.init.orthogonal_(torch.empty(shape), generator=g))
    optimizer = OptimizerCase("", cl.CoLud, {"lr": lr, "friction": 1.0, "temperature": 0.01, "seed": 1})
    check_resume(optimizer, case, torch.float32)
    check_resume(optimizer, case, torch.float64)


@pytest.mark.parametrize("weights_first", [True, False])
def test_model_and_optimizer_load_in_either_order(weights_first: bool) -> None:
    problem, opt = start(NOISY, by_id("sphere-slack"))
    train(problem, opt, 2)
    resumed, fresh = Problem(by_id("sphere-slack"), seed=1), None
    fresh = NOISY.build(resumed.groups())
    loads = [
        lambda: resumed.load_state_dict(problem.state_dict()),
        lambda: fresh.load_state_dict(opt.state_dict()),
    ]
    for load in loads if weights_first else reversed(loads):
        load()
    train(problem, opt, 2)
    train(resumed, fresh, 2)
    assert_identical(snapshot(fresh), snapshot(opt))


@whole_table
def test_deepcopy_and_pickle_continue_bitwise(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    problem, opt = start(optimizer, constraint)
    train(problem, opt, 2)
    copies = [copy.deepcopy((problem, opt)), pickle.loads(pickle.dumps((problem, opt)))]
    train(problem, opt, 3)
    for other_problem, other in copies:
        train(other_problem, other, 3)
        assert_identical(snapshot(other), snapshot(opt))
