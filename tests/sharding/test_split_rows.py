"""Rows that are cut, on spheres without slack, take the step of one process."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard

import colangevin as cl
from colangevin.sharding import traffic
from colangevin.sharding.layout import Layout
from colangevin.sharding.ways import way
from tests.sharding.counted import Counted
from tests.sharding.split_runs import OPTIMIZERS, Run, assert_near, rows

# Units of rounding of the largest entry by which weights and states may differ after three steps.
ULPS = 16.0
RADII = torch.tensor([0.5, 1.0, 2.0, 3.0, 4.0, 5.0])


def spheres(optimizer: str, shape: tuple[int, ...], dtype: torch.dtype, **options: Any) -> Run:
    radii = RADII[: shape[0]].to(dtype)
    return Run(optimizer, rows(shape, radii, dtype), cl.Sphere(radii, slack=False), **options)


# on 8 ranks some have no column of 9, and no channel of 5; a row of one entry has two points to be at
@pytest.mark.parametrize("shape", [(6, 16), (5, 9), (4, 5, 2, 2), (3, 1)], ids=str)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_rows_that_are_cut(optimizer: str, ranks: int, shape: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.float64):
        run = spheres(optimizer, shape, dtype)
        expected = run.alone()
        for found in run.split(ranks, [Shard(1)]):
            assert_near(found, expected, ULPS)


# 5 rows on a mesh of 4 x 2: two processes have none
@pytest.mark.parametrize(
    ("placements", "mesh"),
    [
        ([Shard(0), Shard(1)], (4, 2)),
        ([Shard(1), Shard(0)], (2, 4)),
        ([Replicate(), Shard(1)], (2, 4)),
        ([Shard(1), Shard(1)], (2, 4)),
    ],
    ids=str,
)
def test_rows_on_meshes_of_two_dimensions(placements: list[Any], mesh: tuple[int, int]) -> None:
    run = spheres("CoLud BAOAB", (5, 9), torch.float32)
    expected = run.alone()
    for found in run.split(8, placements, mesh):
        assert_near(found, expected, ULPS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [1e-12, 1e4])
@pytest.mark.parametrize("optimizer", ["CoLod", "ConstrainedSGD"])
def test_gradients_of_any_size(optimizer: str, scale: float, dtype: torch.dtype) -> None:
    run = spheres(optimizer, (5, 9), dtype, scale=scale, steps=1)
    expected = run.alone()
    for found in run.split(4, [Shard(1)]):
        # the angle is a thousand turns, and has its rounding
        assert_near(found, expected, ULPS if scale < 1 or optimizer == "CoLod" else 1e4 * ULPS)


def edited(parameter: nn.Parameter) -> None:
    """An edit of what one of 4 ranks holds."""
    if not isinstance(parameter, DTensor):
        parameter[:, 3] += 2e-4
    elif parameter.device_mesh.get_local_rank() == 1:
        parameter._local_tensor[:, 0] += 2e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_edited_rows(dtype: torch.dtype) -> None:
    run = spheres("CoLud", (5, 9), dtype, edit=edited)
    expected = run.alone()
    for found in run.split(4, [Shard(1)]):
        assert_near(found, expected, ULPS)


def test_which_way_rows_go() -> None:
    def of(constraint: cl.Constraint, *cuts: Any) -> str:
        return way(Layout((6, 8), (2,) * len(cuts), cuts), constraint.on((6, 8)))

    by_rows, by_columns, fixed = (0, 1), (1, 1), cl.Sphere(1.0, slack=False)
    assert of(fixed, by_columns) == "together"
    assert of(fixed, by_rows, by_columns) == "together"
    assert of(fixed, by_rows) == "alone"
    assert of(cl.Sphere(1.0), by_columns) == "owned"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("optimizer", ["CoLod", "CoLud", "ConstrainedSGD"])
def test_the_bytes_of_sums_are_those_of_the_table(
    optimizer: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, run = Counted(monkeypatch), spheres(optimizer, (6, 16), dtype)
    assert counted.of_a_step(run, [Shard(0), Shard(1)], (2, 2)) == {"together"}
    layout = Layout((6, 16), (2, 2), ((0, 1), (1, 1)))
    options = {"momentum": optimizer != "CoLod", "noisy": optimizer != "ConstrainedSGD"}
    expected = traffic.summed_bytes(run.constraint.on((6, 16)), layout, dtype, **options)
    assert set(counted.summed.values()) == {expected}
    assert traffic.together(run.constraint.on((6, 16)), layout, dtype, **options) == expected
