"""Agreement: a step fails on every rank or on none."""

import pickle
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from colangevin.errors import ConstraintError

__all__ = ["Agreement"]

_MASK = (1 << 62) - 1


class Agreement:
    """Tells every rank of some meshes of an error on one of them.

    Without it the others would go on to the next collective and wait there.

    Args:
        meshes: those of an optimizer's parameters.
    """

    def __init__(self, meshes: Sequence[DeviceMesh]) -> None:
        self._meshes = list(dict.fromkeys(meshes))
        #: the error that all ranks raised last
        self.raised: BaseException | None = None

    def reach(
        self, error: Exception | None, pattern: tuple[bool, ...] = (), flags: Sequence[bool] = ()
    ) -> list[bool]:
        """Raise on every rank if there is an error on any. Every rank has to call it.

        Args:
            error: this rank's, if it has one.
            pattern: what has to be the same on every rank: which parameters have a gradient.
            flags: what one rank says for all; equally many on every rank.

        Returns:
            Which flags any rank has raised.

        Raises:
            ConstraintError: when the pattern differs between ranks.
        """
        device = self._meshes[0].device_type
        number = hash(pattern) & _MASK  # the same in every process, as that of None is not
        said = torch.tensor([error is not None, number, -number, *flags], device=device)
        for group in self._groups():
            dist.all_reduce(said, dist.ReduceOp.MAX, group=group)
        failed, most, least, *raised = said.tolist()
        if failed:
            self._raise(self._first(error))
        if most != -least:
            self._raise(
                ConstraintError(
                    "gradients: a parameter has one on some ranks and none on others, so the ranks cannot "
                    "take the same step. Use every parameter on every rank, or set the missing gradients to "
                    "zeros."
                )
            )
        return list(map(bool, raised))

    def _groups(self) -> list[dist.ProcessGroup]:
        """Groups in whose order a maximum reaches every rank; several meshes need a round each."""
        once = [mesh.get_group(d) for mesh in self._meshes for d in range(mesh.ndim)]
        return once * len(self._meshes)

    def _first(self, error: Exception | None) -> Exception:
        """The error of the lowest rank that has one."""
        found: tuple[int, bytes] | None = None if error is None else (dist.get_rank(), _portable(error))
        for group in self._groups():
            everyone: list[Any] = [None] * dist.get_world_size(group)
            dist.all_gather_object(everyone, found, group=group)
            found = min((each for each in everyone if each is not None), default=None)
        assert found is not None
        rank, words = found
        if error is not None and rank == dist.get_rank():
            return error
        kind, text = pickle.loads(words)
        made: Exception = kind(f"{text} (This happened on rank {rank}.)")
        return made

    def _raise(self, error: Exception) -> None:
        self.raised = error
        raise error


def _portable(error: Exception) -> bytes:
    """An error as bytes; one that does not travel as a ``ConstraintError`` with its words."""
    kind = type(error) if isinstance(error, ConstraintError | TypeError | ValueError) else ConstraintError
    return pickle.dumps((kind, str(error)))
