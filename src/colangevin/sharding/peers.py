"""Peers: the processes that hold the parts of one tensor."""

import atexit

import torch.distributed as dist
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

__all__ = ["Peers", "peers"]


class Peers:
    """A process group, and the place of each of its ranks in a mesh.

    Args:
        mesh: of the tensor.
        dims: the dimensions of the mesh along which the processes lie.
    """

    def __init__(self, mesh: DeviceMesh, dims: tuple[int, ...]) -> None:
        coordinate = mesh.get_coordinate()
        assert coordinate is not None
        block = mesh.mesh[tuple(slice(None) if d in dims else coordinate[d] for d in range(mesh.ndim))]
        self.group = mesh.get_group(dims[0]) if len(dims) == 1 else _group(block.flatten().tolist())
        ranks = dist.get_process_group_ranks(self.group)
        #: the place of each rank
        self.coordinates = [tuple((mesh.mesh == rank).nonzero()[0].tolist()) for rank in ranks]
        #: the number of this process in the group
        self.me = dist.get_rank(self.group)

    def __len__(self) -> int:
        return len(self.coordinates)


_known: dict[tuple[DeviceMesh, tuple[int, ...], object], Peers] = {}
# Threads of a gloo group that is still held when Python ends may abort the process.
atexit.register(_known.clear)


def peers(mesh: DeviceMesh, dims: tuple[int, ...]) -> Peers:
    """The processes along some dimensions of a mesh that have the other coordinates of this one.

    Every one of them has to ask for its peers in the same order, since a group may have to be made.

    Args:
        mesh: of a tensor.
        dims: dimensions of the mesh, at least one.

    Returns:
        The peers.
    """
    key = mesh, dims, dist.group.WORLD
    if key not in _known:
        _known[key] = Peers(mesh, dims)
    return _known[key]


def _group(ranks: list[int]) -> ProcessGroup:
    """A group of these ranks. A mesh has groups along single dimensions only."""
    world = dist.group.WORLD
    assert world is not None
    if sorted(ranks) == dist.get_process_group_ranks(world):
        return world
    made = dist.new_group(sorted(ranks), use_local_synchronization=True)
    assert isinstance(made, ProcessGroup)
    return made
