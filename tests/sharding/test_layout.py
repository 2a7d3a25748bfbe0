"""Which block each rank holds, and which numbers its elements have: as torch has it, and by enumeration."""

import itertools
import math

import pytest
import torch
from torch.distributed.tensor import Placement, Replicate, Shard
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import _StridedShard

from colangevin.errors import ConstraintError
from colangevin.noise import Window
from colangevin.sharding.layout import Cut, Layout
from colangevin.sharding.owners import owners
from colangevin.sharding.region import Region

SHAPES = [(7,), (8, 5), (1, 9), (7, 5, 3), (4, 6, 2)]
MESHES = [(1,), (3,), (8,), (2, 2), (2, 3), (2, 2, 2)]
CUTS: list[Cut] = [None, (0, 1), (1, 1), (2, 1)]


def placement(cut: Cut) -> Placement:
    return Replicate() if cut is None else Shard(cut[0])


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("whole", SHAPES)
def test_regions_are_those_of_torch(whole: tuple[int, ...], mesh: tuple[int, ...]) -> None:
    for cuts in itertools.product(
        [cut for cut in CUTS if cut is None or cut[0] < len(whole)], repeat=len(mesh)
    ):
        layout = Layout(whole, mesh, cuts)
        for place in itertools.product(*map(range, mesh)):
            placements = [placement(cut) for cut in cuts]
            shape, start = _compute_local_shape_and_global_offset(whole, mesh, list(place), placements)
            region = layout.region(place)
            assert region.shape == tuple(shape)
            if region.numel:
                assert region.start == tuple(start)


@pytest.mark.parametrize("cuts", [((0, 1), (1, 1)), ((0, 1), (0, 1)), (None, (0, 1)), ((0, 2), (0, 1))])
def test_every_element_is_held_once_by_each_set_of_copies(cuts: tuple[Cut, ...]) -> None:
    mesh = (2, 2)
    for whole in [(8, 5), (7, 5), (1, 1), (3, 2)]:
        layout = Layout(whole, mesh, cuts)
        held = torch.zeros(whole)
        for place in itertools.product(*map(range, mesh)):
            held[layout.region(place).slices] += 1
        copies = math.prod(n for n, cut in zip(mesh, cuts, strict=True) if cut is None)
        assert torch.equal(held, torch.full(whole, float(copies)))


def test_a_tensor_parallel_part_is_cut_again_by_fully_shard() -> None:
    # tensor parallelism gives rows 0 to 4 and 5 to 9, of which the data-parallel ranks have 3 and 2
    layout = Layout((10, 6), (2, 2), ((0, 2), (0, 1)))
    starts = [layout.region(place).start[0] for place in itertools.product(range(2), range(2))]
    assert starts == [0, 5, 3, 8]
    assert layout.placements == (_StridedShard(0, split_factor=2), Shard(0))


def test_blocks_that_lie_apart_are_refused() -> None:
    with pytest.raises(ConstraintError, match=r"shape \(9,\) on a mesh of shape \(2, 2\).*several blocks"):
        Layout((9,), (2, 2), ((0, 3), (0, 1))).region((0, 0))


@pytest.mark.parametrize("whole", SHAPES)
def test_windows_give_elements_their_numbers_in_the_whole(whole: tuple[int, ...]) -> None:
    numbers = torch.arange(math.prod(whole)).view(whole)
    ranges = [[(a, n) for a in range(m) for n in range(1, m - a + 1)] for m in whole]
    for picked in itertools.islice(itertools.product(*ranges), 0, None, 7):
        region = Region(whole, tuple(a for a, _ in picked), tuple(n for _, n in picked))
        expected = numbers[region.slices].flatten().tolist()
        window = region.window()
        if window is not None:
            assert [_number(window, i) for i in range(region.numel)] == expected
        else:
            assert len([dim for dim in region.cut if dim]) > 1  # neither a matrix nor cut along one more


def _number(window: Window, element: int) -> int:
    return window.first + element // window.length * window.stride + element % window.length


def test_owners_share_the_work_evenly() -> None:
    # 12 layers of GPT-2 small's four matrices
    costs = [768 * n * 800 for _ in range(12) for n in (2304, 768, 3072, 3072)]
    for ranks in (1, 2, 3, 8, 16):
        load = [0] * ranks
        for cost, owner in zip(costs, owners(costs, ranks), strict=True):
            load[owner] += cost
        assert max(load) <= 1.3 * max(sum(costs) / ranks, max(costs))
