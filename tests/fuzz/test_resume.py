"""Runs that are saved and resumed anywhere, by the hundred: the same bits as the run that was not.

Seeded: the same cases in every run.
"""

import copy
import io
import itertools
import pickle
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from colangevin.step import plain, plan
from tests.fuzz import cases
from tests.fuzz.cases import Held, Method
from tests.fuzz.test_hostile import HOSTILE
from tests.optim_db import assert_identical, snapshot

WAYS = ("file", "file twice", "deepcopy", "pickle", "weights last")


@dataclass(frozen=True)
class Leg:
    """Some steps of one kind; before them the run is saved and resumed in one way, or not."""

    steps: int
    kind: str
    size: float
    way: str
    edited: bool


LEGS = st.builds(
    Leg,
    steps=st.integers(1, 3),
    kind=st.sampled_from(cases.KINDS),
    size=st.sampled_from((1e-3, 0.1, 1.0, 10.0)),
    way=st.sampled_from(WAYS),
    edited=st.booleans(),
)


class Run:
    """A weight under its constraint, a free one, and their optimizer."""

    def __init__(self, held: Held, method: Method, dtype: torch.dtype) -> None:
        self.held, self.method, self.dtype = held, method, dtype
        self.weight, self.free = held.weight(dtype, 0), cases.free_beside(held, dtype)
        self.optimizer = method.build(cases.groups_of(self.weight, self.free, held))
        self.taken = 0

    @property
    def tame(self) -> bool:
        """Whether the free weight is finite: nothing holds it, as under SGD, and float16 ends at 65,504."""
        state = self.optimizer.state.get(self.free, {})
        return all(bool(each.isfinite().all()) for each in (self.free, *state.values()))

    def go(self, leg: Leg) -> None:
        if leg.edited:
            with torch.no_grad():
                self.weight.copy_(self.held.weight(self.dtype, self.taken + 1))
        for _ in range(leg.steps):
            self.taken += 1

            def closure() -> Tensor:
                self.optimizer.zero_grad()
                cases.set_gradients(self.weight, self.free, leg.kind, leg.size, self.taken)
                return torch.zeros(())

            self.optimizer.step(closure)

    def resumed(self, way: str) -> "Run":
        """Another run that goes on where this one is."""
        if way in ("deepcopy", "pickle"):
            mine = (self.weight, self.free, self.optimizer)
            theirs = copy.deepcopy(mine) if way == "deepcopy" else pickle.loads(pickle.dumps(mine))
            other = copy.copy(self)
            other.weight, other.free, other.optimizer = theirs
            return other
        saved = _through_file({"weight": self.weight.detach(), "free": self.free.detach()})
        state = _through_file(self.optimizer.state_dict())
        other = Run(self.held, self.method, self.dtype)
        other.taken = self.taken
        for load in range(2 if way == "file twice" else 1):
            if way == "weights last" or load:
                other.optimizer.load_state_dict(state)
            with torch.no_grad():
                other.weight.copy_(saved["weight"])
                other.free.copy_(saved["free"])
            if way != "weights last":
                other.optimizer.load_state_dict(state)
        return other


def _through_file(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def run(held: Held, method: Method, dtype: torch.dtype, legs: list[Leg]) -> None:
    straight, resumed = Run(held, method, dtype), Run(held, method, dtype)
    for leg in legs:
        straight.go(leg)
        if not straight.tame:
            return
        resumed = resumed.resumed(leg.way)
        resumed.go(leg)
        assert_identical(snapshot(resumed.optimizer), snapshot(straight.optimizer))


CASES = {
    "held": cases.helds(),
    "method": cases.methods(),
    "dtype": st.sampled_from(cases.DTYPES),
    "legs": st.lists(LEGS, min_size=1, max_size=4),
}


@pytest.mark.filterwarnings("ignore:.*exactly at the bound:UserWarning")
@settings(max_examples=300, **HOSTILE)
@given(**CASES)
def test_resumed_runs_are_the_same(held: Held, method: Method, dtype: torch.dtype, legs: list[Leg]) -> None:
    run(held, method, dtype, legs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*exactly at the bound:UserWarning")
@settings(max_examples=5000, **HOSTILE)
@given(**CASES)
def test_many_resumed_runs_are_the_same(
    held: Held, method: Method, dtype: torch.dtype, legs: list[Leg]
) -> None:
    run(held, method, dtype, legs)


def test_noise_with_a_state_of_its_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that goes on from whoever drew last."""
    drawn = itertools.count()
    monkeypatch.setattr(plan, "native", lambda entry, dynamics: False)
    monkeypatch.setattr(plain, "stream", lambda *words: next(drawn))
    cases = settings(max_examples=100, phases=[Phase.generate], **HOSTILE)(given(**CASES)(run))
    with pytest.raises((AssertionError, ExceptionGroup)):
        cases()
