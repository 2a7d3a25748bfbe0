"""Parts of weights draw the noise of the whole, on the native path and on the plain one."""

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.constraints.free import Space
from colangevin.native.library import library
from colangevin.noise import Window
from colangevin.step import plan
from colangevin.step.native.native import Native
from colangevin.step.plain import Plain
from tests.step.parts import CONSTRAINTS, OPTIMIZERS, Part, assert_equal, beside_whole

#: more than the blocks of 256 and the units of 16384 that the native library works on
SHAPE = (301, 129)
ROWS = {
    "an odd row": Part(range(3, 250), range(129)),
    "the last row": Part(range(300, 301), range(129)),
    "all": Part(range(301), range(129)),
}
COLUMNS = {
    "columns": Part(range(301), range(5, 70)),
    "a column": Part(range(301), range(4, 5)),
    "the last element": Part(range(300, 301), range(128, 129)),
}
DTYPES = (torch.float32, torch.float64)
BY_ROWS = {"sphere", "radii, sphere", "ball"}


@pytest.fixture(params=["native", "plain"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type:
    """Which path the steps of a test take."""
    if request.param == "native":
        if library() is None:
            pytest.skip("the native library is not compiled")
        return Native
    monkeypatch.setattr(plan, "native", lambda entry, dynamics: False)
    return Plain


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_part_moves_as_in_the_whole(
    path: type, constraint: str, optimizer: str, dtype: torch.dtype
) -> None:
    parts = ROWS if constraint in BY_ROWS else {**ROWS, **COLUMNS}
    for part in parts.values():
        ours, expected, movers = beside_whole(constraint, optimizer, SHAPE, part, dtype)
        assert movers == {path}
        assert_equal(ours, expected)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_wrong_window_is_found(path: type, constraint: str, optimizer: str) -> None:
    off_by = SHAPE[1] if constraint in BY_ROWS else 1
    ours, expected, _ = beside_whole(
        constraint, optimizer, SHAPE, ROWS["an odd row"], torch.float64, off_by=off_by
    )
    with pytest.raises(AssertionError, match="weight"):
        assert_equal(ours, expected)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_empty_part_stays(path: type, optimizer: str) -> None:
    ours, _, movers = beside_whole(
        "circle", optimizer, SHAPE, Part(range(301, 301), range(129)), torch.float32
    )
    assert movers == set()
    assert ours["weight"].shape == (0, 129)


def test_parts_are_not_stacked() -> None:
    class StackedSpace(Space):
        """A manifold that moves parameters of one shape in one call."""

        stacks = True

    class Stacked(cl.Free):
        manifold = StackedSpace

    weights = [nn.Parameter(torch.zeros(5)) for _ in range(3)]
    opt = cl.CoLod([{"params": weights, "constraint": Stacked()}], 0.1, temperature=1.0, seed=3)
    entries = opt._roster.entries(opt.param_groups, opt._names, opt._all_dynamics())
    entries[1].window = Window(5, 5, 0)
    for weight in weights:
        weight.grad = torch.zeros(5)
    opt.step()
    assert [len(mover.entries) for mover in opt._plan.movers] == [2, 1]
