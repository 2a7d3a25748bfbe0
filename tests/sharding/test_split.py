"""Parts that move together by sums take the step of one process, up to the order of the sums."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import colangevin as cl
from colangevin.sharding import traffic
from colangevin.sharding.layout import Layout
from colangevin.sharding.ways import way
from tests.sharding.counted import Counted
from tests.sharding.simulated import outcomes_of
from tests.sharding.split_runs import OPTIMIZERS, Run, assert_near, frames, long_side

# Units of rounding of the largest entry by which weights and states may differ after three steps.
ULPS = 16.0
# The same where the polar factor is taken, of matrices whose condition multiplies the rounding.
ULPS_OF_POLAR = 256.0


# 40 and 41 rows: even parts, uneven ones, and on 8 ranks with 42 columns an empty one
@pytest.mark.parametrize("shape", [(40, 3), (41, 3), (3, 42), (3, 20, 2, 2), (10, 1)], ids=str)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_orthogonal_matrices(optimizer: str, ranks: int, shape: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.float64):
        run = Run(optimizer, frames(shape, dtype))
        expected = run.alone()
        for found in run.split(ranks, long_side(shape)):
            assert_near(found, expected, ULPS)


def test_orthogonal_matrices_in_bfloat16() -> None:
    """The configuration in the state is what the sums are taken of."""
    run = Run("CoLud", frames((40, 3), torch.bfloat16))
    expected = run.alone()
    for found in run.split(4, [Shard(0)]):
        assert_near(found, expected, ULPS)


@pytest.mark.parametrize(
    ("placements", "mesh"), [([Replicate(), Shard(0)], (2, 2)), ([Shard(0), Shard(0)], (2, 2))], ids=str
)
def test_meshes_of_two_dimensions(placements: list[Any], mesh: tuple[int, int]) -> None:
    run = Run("CoLud BAOAB", frames((40, 3)))
    expected = run.alone()
    for found in run.split(4, placements, mesh):
        assert_near(found, expected, ULPS)


@pytest.mark.parametrize("worth_stacking", [0, 16, 1 << 14])
def test_stacks_are_the_same_on_every_rank(worth_stacking: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # on 8 ranks rank 6 has 5 rows of either, and rank 7 none of the longer ones; a part has 15 elements or 18
    monkeypatch.setattr("colangevin.step.plan._WORTH_STACKING", worth_stacking)
    run = Run("CoLud", frames((40, 3), count=2) + frames((41, 3), count=2) + frames((40, 3)))
    expected = run.alone()
    for found in run.split(8, [Shard(0)]):
        assert_near(found, expected, ULPS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("shape", [(41, 3), (3, 42)], ids=str)
def test_steps_too_large_for_the_iteration(
    shape: tuple[int, int], optimizer: str, dtype: torch.dtype
) -> None:
    run = Run(optimizer, frames(shape, dtype, count=2), scale=100.0)
    expected = run.alone()
    assert int(expected["fallbacks"]) > 0
    for found in run.split(4, long_side(shape)):
        assert_near(found, expected, ULPS_OF_POLAR)


def scaled(parameter: nn.Parameter) -> None:
    """An edit that every rank takes part in."""
    parameter.mul_(1 + 1e-4)


def added_to_a_part(parameter: nn.Parameter) -> None:
    """An edit of what one of 4 ranks holds."""
    if not isinstance(parameter, DTensor):
        parameter[10] += 5e-4
    elif parameter.device_mesh.get_local_rank() == 1:
        parameter._local_tensor[0] += 5e-4


def added_to_a_part_unseen(parameter: nn.Parameter) -> None:
    """The same, which torch does not count."""
    if not isinstance(parameter, DTensor):
        parameter.data[10] += 5e-4
    elif parameter.device_mesh.get_local_rank() == 1:
        parameter._local_tensor.data[0] += 5e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("edit", [scaled, added_to_a_part, added_to_a_part_unseen])
def test_edited_weights(edit: Any, dtype: torch.dtype) -> None:
    run = Run("CoLud", frames((40, 3), dtype, count=2), edit=edit)
    expected = run.alone()
    for found in run.split(4, [Shard(0)]):
        assert_near(found, expected, ULPS)


def stepped_after(trouble: Any) -> Any:
    """A step, trouble on rank 1 of 4, the step that raises, and one after the trouble was taken back."""
    weight = frames((40, 3))[0]

    def run(rank: int) -> tuple[str, Tensor, Tensor]:
        mesh = init_device_mesh("cpu", (4,))
        made = Run("CoLud", [weight])
        optimizer, (parameter,) = made.begun(
            lambda tensor: distribute_tensor(tensor.clone(), mesh, [Shard(0)])
        )
        parameter.grad = distribute_tensor(torch.ones_like(weight), mesh, [Shard(0)])
        optimizer.step()
        part, grad = parameter._local_tensor, parameter.grad._local_tensor
        before = part.detach().clone()
        if rank == 1:
            trouble(part, grad)
        with pytest.raises(cl.ConstraintError) as raised, torch.no_grad():
            optimizer.step()
        grad.fill_(1)
        with torch.no_grad():
            part.copy_(before)
        optimizer.step()
        return str(raised.value), before, part.detach()

    return outcomes_of(run, 4)


@torch.no_grad()
def doubled(part: Tensor, grad: Tensor) -> None:
    part.mul_(2)


def not_a_number(part: Tensor, grad: Tensor) -> None:
    grad[0] = torch.nan


@pytest.mark.parametrize(
    ("trouble", "words"),
    [(doubled, r"'w0' (40, 3): its columns are not orthonormal"), (not_a_number, "gradient holds NaN")],
)
def test_trouble_on_one_rank_is_raised_on_all(trouble: Any, words: str) -> None:
    for outcome in stepped_after(trouble):
        assert not isinstance(outcome, BaseException), outcome
        said, before, after = outcome
        assert words in said
        assert not torch.equal(before, after)


def test_which_way_a_weight_goes() -> None:
    def of(shape: tuple[int, ...], cuts: tuple[Any, ...], mesh: tuple[int, ...]) -> str:
        return way(Layout(shape, mesh, cuts), cl.Orthogonal().on(shape))

    rows, columns = (0, 1), (1, 1)
    assert of((40, 3), (rows,), (4,)) == "together"
    assert of((3, 40), (columns,), (4,)) == "together"
    assert of((40, 3), (None, rows), (2, 4)) == "together"
    # the short side is cut, or both are
    assert of((40, 3), (columns,), (4,)) == "owned"
    assert of((3, 40), (rows,), (4,)) == "owned"
    assert of((400, 3), (rows, columns), (2, 2)) == "owned"
    # 6 s R <= 5 r
    assert of((48, 10), (rows,), (4,)) == "together"
    assert of((47, 10), (rows,), (4,)) == "owned"
    # nothing is cut
    assert of((40, 3), (None,), (4,)) == "alone"
    assert of((40, 3), (rows,), (1,)) == "alone"
    # no window says which elements a process has
    assert of((3, 40, 4, 4), (columns, (2, 1)), (2, 2)) == "owned"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("optimizer", ["CoLod", "CoLud", "ConstrainedSGD"])
def test_the_bytes_of_sums_are_those_of_the_table(
    optimizer: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, weights = Counted(monkeypatch), frames((41, 3), dtype)
    assert counted.of_a_step(Run(optimizer, weights), [Shard(0)], (4,)) == {"together"}
    manifold = cl.Orthogonal().on((41, 3))
    options = {"momentum": optimizer != "CoLod", "noisy": optimizer != "ConstrainedSGD"}
    layout = Layout((41, 3), (4,), ((0, 1),))
    expected = traffic.summed_bytes(manifold, layout, dtype, **options)
    assert set(counted.summed.values()) == {expected}
    assert set(counted.sent.values()) == {0}
    assert traffic.together(manifold, layout, dtype, **options) == 1.5 * expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("optimizer", ["CoLod", "CoLud"])
def test_the_bytes_of_an_exchange_are_those_of_the_table(
    optimizer: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, weights = Counted(monkeypatch), frames((7, 5), dtype)
    assert counted.of_a_step(Run(optimizer, weights), [Shard(0)], (4,)) == {"owned"}
    layout = Layout((7, 5), (4,), ((0, 1),))
    expected = traffic.owned(cl.Orthogonal().on((7, 5)), layout, dtype, momentum=optimizer != "CoLod")
    assert sum(counted.sent.values()) / 4 == expected
