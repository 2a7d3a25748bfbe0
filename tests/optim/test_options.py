"""Options of a group: numbers of other libraries, numbers beyond float32, parameters that never move."""

import io
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import colangevin as cl
from tests.optim_db import OBA, assert_identical, by_id, snapshot, start, train

TOO_LARGE = (
    (cl.CoLod, {"lr": 1e39}, r"lr=1e\+39 in param_groups\[0\]: must be below 3.4e\+38, the range of float32"),
    (cl.CoLod, {"lr": 0.1, "temperature": 1e80}, r"temperature=1e\+80 in .* below 3.4e\+38"),
    (cl.CoLod, {"lr": 0.1, "weight_decay": 1e39}, r"weight_decay=1e\+39 in"),
    (cl.CoLud, {"lr": 0.1, "friction": 1e39}, r"friction=1e\+39 in"),
    (cl.CoLud, {"lr": torch.tensor(1e39, dtype=torch.float64), "friction": 1.0}, "lr=tensor"),
    (
        cl.ConstrainedSGD,
        {"lr": 1e-80, "momentum": 0.9, "temperature": 1.0},
        r"temperature and lr in param_groups\[0\]: together they make noise of size 4.36e\+39, beyond",
    ),
)


@pytest.mark.parametrize(("kind", "options", "message"), TOO_LARGE)
def test_numbers_beyond_float32_are_refused(
    kind: type[torch.optim.Optimizer], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(cl.ConstraintError, match=message):
        kind([nn.Parameter(torch.ones(2))], **options)


@pytest.mark.parametrize("option", ["lr", "temperature", "friction", "weight_decay"])
def test_numbers_beyond_float32_are_refused_before_anything_moves(option: str) -> None:
    problem, opt = start(OBA, by_id("circle"))
    train(problem, opt, 1)
    opt.param_groups[1][option] = 1e39
    problem.backward()
    before = snapshot(opt)
    with pytest.raises(cl.ConstraintError, match=rf"{option}=1e\+39 in param_groups\[1\]"):
        opt.step()
    assert_identical(snapshot(opt), before)


def test_a_number_beyond_float32_for_one_replica_is_refused() -> None:
    replicas = cl.Replicas(lambda: nn.Linear(2, 1), 2, seed=0)
    rates = torch.tensor([0.1, 1e39], dtype=torch.float64)
    with pytest.raises(cl.ConstraintError, match=r"lr\[1\]=1e\+39 in param_groups\[0\]: must be below"):
        cl.CoLod(replicas.constrain({}), rates)


@pytest.mark.parametrize(
    "number", [np.float32, np.float64, np.float16, np.int64], ids=lambda kind: kind.__name__
)
def test_numbers_of_numpy_are_numbers(number: type[np.number]) -> None:
    problem, opt = start(OBA, by_id("circle"), lr=number(1), friction=number(1), seed=np.int64(3))
    train(problem, opt, 1)
    opt.param_groups[0]["lr"] = number(2)  # as a scheduler with NumPy inside leaves it
    train(problem, opt, 1)
    file = io.BytesIO()
    torch.save(opt.state_dict(), file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    assert type(saved["param_groups"][0]["lr"]) in (int, float)
    opt.load_state_dict(saved)
    plain, plain_opt = start(OBA, by_id("circle"), lr=1.0, friction=1.0, seed=3)
    train(plain, plain_opt, 1)
    plain_opt.param_groups[0]["lr"] = 2.0
    train(plain, plain_opt, 1)
    assert_identical(problem.weight.detach(), plain.weight.detach())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_frozen_parameters_of_any_dtype_are_passed_over(dtype: torch.dtype) -> None:
    """As torch.optim does: quantised weights stand among the parameters of a model that is fine-tuned."""
    model = nn.Linear(2, 2)
    model.packed = nn.Parameter(torch.ones(3).to(dtype), requires_grad=False)
    opt = cl.CoLud(
        cl.constrain(model, {"weight": cl.Circle(2.0)}), 0.1, friction=1.0, temperature=0.1, seed=0
    )
    before = model.packed.detach().clone()
    for _ in range(2):
        opt.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        opt.step()
    assert model.packed.dtype == dtype
    assert torch.equal(model.packed.detach().cpu().to(torch.complex64), before.to(torch.complex64))
    assert "packed" in [name for group in opt.param_groups for name in group["param_names"]]
    opt.load_state_dict(opt.state_dict())
    cl.diagnostics.violation(opt)


def test_a_frozen_parameter_of_another_dtype_cannot_be_thawed() -> None:
    weight = nn.Parameter(torch.ones(3, dtype=torch.complex64), requires_grad=False)
    opt = cl.CoLod([("w", weight)], 0.1)
    weight.grad = torch.ones_like(weight)
    with pytest.raises(
        cl.ConstraintError, match=r"parameter 'w' \(3,\): complex parameters are not supported"
    ):
        opt.step()


def test_a_frozen_parameter_of_another_dtype_cannot_be_constrained() -> None:
    packed = nn.Parameter(torch.ones(3, dtype=torch.uint8), requires_grad=False)
    with pytest.raises(cl.ConstraintError, match=r"parameter 'w' \(3,\): dtype torch.uint8 is not supported"):
        cl.CoLod([{"params": [("w", packed)], "constraint": cl.Circle(2.0)}], 0.1)
