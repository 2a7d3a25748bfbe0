"""Parts of weights draw the noise of the whole on the fused path too."""

import pytest
import torch

from colangevin.step import plan
from colangevin.step.fused.lines import ElementwiseMover
from colangevin.step.fused.spheres import SphereMover
from colangevin.step.plain import Plain
from tests.step.parts import OPTIMIZERS, QUIET, Part, assert_equal, beside_whole

SHAPE = (12, 31)  # several blocks of 64
PARTS = {
    "an odd row": Part(range(3, 10), range(31)),
    "an even row": Part(range(2, 9), range(31)),
    "the last row": Part(range(11, 12), range(31)),
}
MOVERS = {
    "free": ElementwiseMover,
    "circle": ElementwiseMover,
    "sphere": SphereMover,
    "radii, sphere": SphereMover,
    "ball": SphereMover,
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("constraint", MOVERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_part_moves_as_in_the_whole(
    device: torch.device, constraint: str, optimizer: str, part: str, dtype: torch.dtype
) -> None:
    ours, expected, movers = beside_whole(constraint, optimizer, SHAPE, PARTS[part], dtype, device=device)
    assert movers == {MOVERS[constraint]}
    assert_equal(ours, expected)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("constraint", MOVERS)
def test_a_wrong_window_is_found(device: torch.device, constraint: str, optimizer: str) -> None:
    off_by = SHAPE[1] if MOVERS[constraint] is SphereMover else 1
    ours, expected, _ = beside_whole(
        constraint, optimizer, SHAPE, PARTS["an odd row"], torch.float32, off_by=off_by, device=device
    )
    with pytest.raises(AssertionError, match="weight"):
        assert_equal(ours, expected)


@pytest.mark.parametrize("optimizer", [*OPTIMIZERS, *QUIET])
@pytest.mark.parametrize("constraint", ["free", "circle"])
def test_a_noisy_part_in_several_pieces_takes_the_plain_path(
    device: torch.device, constraint: str, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "native", lambda entry, dynamics: False)
    part = Part(range(12), range(5, 20))
    ours, expected, movers = beside_whole(constraint, optimizer, SHAPE, part, torch.float32, device=device)
    assert movers == {ElementwiseMover if optimizer in QUIET else Plain}
    for key, value in expected.items():
        torch.testing.assert_close(ours[key], value, rtol=1e-5, atol=1e-6)
