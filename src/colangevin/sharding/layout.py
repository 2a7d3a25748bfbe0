"""Layout: which block of a tensor each process of a mesh holds."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement, _StridedShard

from colangevin.errors import ConstraintError
from colangevin.sharding.region import Region

__all__ = ["Cut", "Layout", "layout_of", "region_of"]

#: The dimension that a dimension of the mesh cuts, and into how many pieces later dimensions of the mesh cut
#: it before: 1 unless the model was tensor parallel before ``fully_shard``. None: nothing is cut.
Cut = tuple[int, int] | None
#: numbers of a dimension, as half-open intervals
_Numbers = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Layout:
    """How a tensor is spread over a mesh.

    Attributes:
        whole: the shape of the tensor.
        mesh: the shape of the mesh.
        cuts: what each dimension of the mesh does to the tensor.
    """

    whole: tuple[int, ...]
    mesh: tuple[int, ...]
    cuts: tuple[Cut, ...]

    @property
    def cutting(self) -> tuple[int, ...]:
        """The dimensions of the mesh whose processes have different parts."""
        return tuple(d for d, cut in enumerate(self.cuts) if cut is not None and self.mesh[d] > 1)

    @property
    def cut_dims(self) -> set[int]:
        """The dimensions of the tensor that are cut."""
        return {cut[0] for d, cut in enumerate(self.cuts) if cut is not None and self.mesh[d] > 1}

    @property
    def windowed(self) -> bool:
        """Whether a window says of every process which elements it has, so that it can draw their noise."""
        places = itertools.product(*map(range, self.mesh))
        return all(self.region(place).window() is not None for place in places)

    def region(self, coordinate: Sequence[int]) -> Region:
        """The block that the process at a place of the mesh holds."""
        return _region(self, tuple(coordinate))

    def of_state(self, shape: Sequence[int]) -> "Layout":
        """The layout of a tensor of the state: the parameter's, or for another shape cuts of a similar kind.

        A state with slack for rows has shape (1, rows, n + 1) and is cut along its rows. One with slack for
        entries has shape (1, *whole, numbers an entry) and is cut as the weight.

        Args:
            shape: of the tensor.

        Returns:
            The layout.
        """
        shape = tuple(shape)
        if shape == self.whole:
            return self
        if shape[1:-1] == self.whole:
            return Layout(shape, self.mesh, tuple(cut and (cut[0] + 1, cut[1]) for cut in self.cuts))
        return Layout(shape, self.mesh, tuple(None if cut is None else (1, 1) for cut in self.cuts))

    @property
    def placements(self) -> tuple[Placement, ...]:
        """The layout in torch's words."""
        return tuple(map(_placement, self.cuts))


def _placement(cut: Cut) -> Placement:
    if cut is None:
        return Replicate()
    dim, pieces = cut
    return Shard(dim) if pieces == 1 else _StridedShard(dim, split_factor=pieces)


@lru_cache(maxsize=1 << 16)
def _region(layout: Layout, coordinate: tuple[int, ...]) -> Region:
    numbers: list[_Numbers] = [((0, n),) for n in layout.whole]
    for place, cut, ranks in zip(coordinate, layout.cuts, layout.mesh, strict=True):
        if cut is not None:
            dim, pieces = cut
            numbers[dim] = _joined(
                _chunk(_chunk(numbers[dim], pieces, piece), ranks, place) for piece in range(pieces)
            )
    if any(len(each) > 1 for each in numbers):
        raise ConstraintError(
            f"a tensor of shape {layout.whole} on a mesh of shape {layout.mesh}: processes hold several "
            "blocks of it, since its length is no multiple of the processes that cut it. Choose a length "
            "that is."
        )
    ends = [each[0] if each else (0, 0) for each in numbers]
    return Region(layout.whole, tuple(a for a, _ in ends), tuple(b - a for a, b in ends))


def _chunk(numbers: _Numbers, count: int, number: int) -> _Numbers:
    """One of the parts that ``torch.chunk`` makes."""
    size = -(-sum(b - a for a, b in numbers) // count)
    return _between(numbers, number * size, (number + 1) * size)


def _joined(parts: Iterable[_Numbers]) -> _Numbers:
    """The numbers of several parts; intervals that follow one another become one."""
    found: list[tuple[int, int]] = []
    for a, b in itertools.chain.from_iterable(parts):
        if found and found[-1][1] == a:
            found[-1] = found[-1][0], b
        else:
            found.append((a, b))
    return tuple(found)


def _between(numbers: _Numbers, begin: int, end: int) -> _Numbers:
    """The numbers from one place in a sequence to another."""
    found, at = [], 0
    for a, b in numbers:
        low, high = max(begin, at), min(end, at + b - a)
        if low < high:
            found.append((a + low - at, a + high - at))
        at += b - a
    return tuple(found)


def layout_of(tensor: DTensor, what: str) -> Layout:
    """The layout of a DTensor.

    Args:
        tensor: a parameter or a gradient.
        what: its name and shape, for an error.

    Returns:
        The layout.

    Raises:
        ConstraintError: for a placement that has no block for each process, or a block of unknown place.
    """
    cuts: list[Cut] = []
    for placement in tensor.placements:
        if isinstance(placement, _StridedShard):
            cuts.append((placement.dim, int(placement.split_factor)))
        elif type(placement) is Shard:
            cuts.append((placement.dim, 1))
        elif isinstance(placement, Replicate):
            cuts.append(None)
        else:
            raise ConstraintError(
                f"{what}: is a DTensor with placement {placement}, in which no process holds a block of the "
                "weight. Use Shard or Replicate."
            )
    mesh = tensor.device_mesh
    layout = Layout(tuple(tensor.shape), tuple(mesh.shape), tuple(cuts))
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise ConstraintError(f"{what}: is a DTensor on a mesh that this process does not belong to.")
    held = layout.region(coordinate).shape
    if math.prod(held) + tensor._local_tensor.numel() and held != tuple(tensor._local_tensor.shape):
        raise ConstraintError(
            f"{what}: this process holds a block of shape {tuple(tensor._local_tensor.shape)}, and "
            f"{tensor.placements} on a mesh of shape {tuple(mesh.shape)} stands for {held}. Use "
            "distribute_tensor or fully_shard."
        )
    return layout


def region_of(tensor: DTensor) -> Region:
    """The block of a DTensor that this process holds."""
    layout = layout_of(tensor, f"a tensor of shape {tuple(tensor.shape)}")
    return layout.region(tensor.device_mesh.get_coordinate() or ())
