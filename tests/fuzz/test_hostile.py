"""Hostile cases by the hundred: weights stay feasible and finite, or an error changed nothing.

Seeded: the same cases in every run.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import colangevin as cl
from colangevin.constraints.spherical import Spheres
from colangevin.step import plan
from tests.fuzz import cases
from tests.fuzz.cases import Held, Method
from tests.optim_db import assert_identical, snapshot

EDITS = (
    "none",
    "none",
    "none",
    "scaled",
    "elsewhere",
    "data",
    "infinite",
    "replaced",
    "double",
    "bfloat16",
    "far",
)
SPOILED = ("none", "none", "none", "none", "nan", "inf", "missing", "none")
OPTIONS = ("none", "none", "none", "lr 0", "lr 1", "lr 1e39", "lr -1", "temperature", "decay")


@contextmanager
def double_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


SURROUNDINGS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "none": nullcontext,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "inference": torch.inference_mode,
    "meta": lambda: torch.device("meta"),
    "double": double_default,
}


@dataclass(frozen=True)
class Move:
    """One step and what happens before it."""

    kind: str
    size: float
    seed: int
    edit: str
    spoiled: str
    option: str
    surroundings: str


MOVES = st.builds(
    Move,
    kind=st.sampled_from(cases.KINDS),
    size=st.sampled_from(cases.SIZES),
    seed=st.integers(0, 1000),
    edit=st.sampled_from(EDITS),
    spoiled=st.sampled_from(SPOILED),
    option=st.sampled_from(OPTIONS),
    surroundings=st.sampled_from(("none", "none", "none", *SURROUNDINGS)),
)


def edit(optimizer: torch.optim.Optimizer, held: Held, move: Move) -> None:
    """Change the weight as somebody else would, feasibly or not."""
    group = optimizer.param_groups[0]
    (weight,) = group["params"]
    fresh = held.weight(weight.dtype, move.seed).detach()
    if move.edit == "scaled":
        weight.data.mul_(0.5)
    elif move.edit == "elsewhere":
        with torch.no_grad():
            weight.copy_(fresh)
    elif move.edit == "data":
        weight.data = fresh
    elif move.edit == "infinite" and not isinstance(held.constraint, cl.Free):
        weight.data.fill_(torch.inf)
    elif move.edit == "replaced":
        group["params"][0] = nn.Parameter(fresh)
        optimizer.state.pop(weight, None)
    elif move.edit in ("double", "bfloat16"):
        for each in (weight, *optimizer.param_groups[1]["params"]):
            each.data = each.data.to(torch.float64 if move.edit == "double" else torch.bfloat16)
            each.grad = None
    elif move.edit == "far":
        weight.data.add_(1e3)


def change_options(optimizer: torch.optim.Optimizer, move: Move) -> None:
    values = {
        "lr 0": ("lr", 0.0),
        "lr 1": ("lr", 1.0),
        "lr 1e39": ("lr", 1e39),
        "lr -1": ("lr", -1.0),
        "temperature": ("temperature", 0.1),
        "decay": ("weight_decay", 1.0),
    }
    if move.option in values:
        option, value = values[move.option]
        for group in optimizer.param_groups:
            group[option] = value


def spoil(weight: nn.Parameter, move: Move) -> None:
    if move.spoiled == "missing":
        weight.grad = None
    elif move.spoiled in ("nan", "inf") and weight.numel():
        weight.grad.reshape(-1)[-1] = torch.nan if move.spoiled == "nan" else torch.inf


def take(optimizer: torch.optim.Optimizer, method: Method, move: Move) -> None:
    """A step, with a closure where the splitting needs one."""
    (weight,), (free,) = (group["params"] for group in optimizer.param_groups)
    closure = None
    if method.closure:

        def closure() -> Tensor:
            optimizer.zero_grad()
            with torch.inference_mode(False), torch.device("cpu"):
                cases.set_gradients(weight, free, move.kind, move.size, move.seed)
                spoil(weight, move)
            return torch.zeros(())  # of the loss nothing is asked

    with SURROUNDINGS[move.surroundings]():
        optimizer.step(closure)


def check(optimizer: torch.optim.Optimizer, held: Held) -> None:
    """Feasible, cotangent, finite."""
    (weight,) = optimizer.param_groups[0]["params"]
    tolerance = cases.tolerance(weight.dtype, held)
    for each in (weight, *(v for v in optimizer.state.get(weight, {}).values() if torch.is_tensor(v))):
        assert bool(each.isfinite().all()), "not finite"
    if weight.numel():
        assert cl.diagnostics.violation(optimizer)["weight"] <= tolerance
        assert cl.diagnostics.cotangency(optimizer).get("weight", 0.0) <= 10 * tolerance


def run(held: Held, method: Method, dtype: torch.dtype, moves: list[Move]) -> None:
    weight, free = held.weight(dtype, 0), cases.free_beside(held, dtype)
    optimizer = method.build(cases.groups_of(weight, free, held))
    for move in moves:
        edit(optimizer, held, move)
        change_options(optimizer, move)
        (weight,), (free,) = (group["params"] for group in optimizer.param_groups)
        cases.set_gradients(weight, free, move.kind, move.size, move.seed)
        spoil(weight, move)
        grad = None if weight.grad is None else weight.grad.clone()
        before = snapshot(optimizer)
        refused = _refused(optimizer, method, move)
        if refused is not None:
            assert refused.endswith("."), refused
            assert_identical(snapshot(optimizer), before)
            return
        if weight.grad is not None and not method.closure:
            assert torch.equal(weight.grad, grad), "the gradient was changed"
        if move.spoiled in ("nan", "inf") and weight.numel():
            raise AssertionError("a gradient that is not finite was not refused")
        if weight.grad is not None:
            check(optimizer, held)


def _refused(optimizer: torch.optim.Optimizer, method: Method, move: Move) -> str | None:
    """What the library said when it refused a step; any other error is a failure."""
    try:
        take(optimizer, method, move)
    except cl.ConstraintError as error:
        return str(error)
    return None


CASES = {
    "held": cases.helds(),
    "method": cases.methods(),
    "dtype": st.sampled_from(cases.DTYPES),
    "moves": st.lists(MOVES, min_size=1, max_size=6),
}
HOSTILE = {
    "derandomize": True,
    "database": None,
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "print_blob": False,
}


@pytest.mark.filterwarnings("ignore:.*exactly at the bound:UserWarning")
@settings(max_examples=300, **HOSTILE)
@given(**CASES)
def test_hostile_cases(held: Held, method: Method, dtype: torch.dtype, moves: list[Move]) -> None:
    run(held, method, dtype, moves)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*exactly at the bound:UserWarning")
@settings(max_examples=5000, **HOSTILE)
@given(**CASES)
def test_many_hostile_cases(held: Held, method: Method, dtype: torch.dtype, moves: list[Move]) -> None:
    run(held, method, dtype, moves)


@pytest.mark.filterwarnings("ignore:.*exactly at the bound:UserWarning")
def test_a_step_off_the_manifold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drift along a line instead of a great circle."""
    monkeypatch.setattr(plan, "native", lambda entry, dynamics: False)
    monkeypatch.setattr(Spheres, "drift", lambda self, q, p, a: (q + a * p, p))
    cases = settings(max_examples=300, phases=[Phase.generate], **HOSTILE)(given(**CASES)(run))
    with pytest.raises((AssertionError, ExceptionGroup)):
        cases()
