"""Parts of weights draw the noise of the whole, on the native path and on the plain one."""

import pytest
import torch
from torch import Tensor, nn

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
    entries = opt._roster.entries(opt.param_groups, opt._names, opt._all_dynamics(), opt.state)
    entries[1].window = Window(5, 5, 0)
    for weight in weights:
        weight.grad = torch.zeros(5)
    opt.step()
    assert [len(mover.entries) for mover in opt._plan.movers] == [2, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("splitting", ["OBA", "BAOAB"])
def test_an_angle_moves_alike_whichever_share_its_block(dtype: torch.dtype, splitting: str) -> None:
    def moved(count: int) -> list[Tensor]:
        weight = nn.Parameter(torch.linspace(0.05, 0.9, 64, dtype=dtype)[:count].clone())
        group = {"params": [weight], "constraint": cl.Circle(1.0)}
        opt = cl.CoLud([group], 0.5, friction=0.1, splitting=splitting)
        for step in range(12):
            weight.grad = torch.cos(torch.arange(count, dtype=dtype) + step) * 0.3
            weight.grad[32:] = -5.0  # these go beyond a right angle
            opt.step()
        return [weight.detach()[:32], *(opt.state[weight][key][:32] for key in ("position", "momentum"))]

    for whole, part in zip(moved(64), moved(32), strict=True):
        assert torch.equal(whole, part)
