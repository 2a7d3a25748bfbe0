"""Whether the ranks of a distributed job train one model together, or each a model of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch.distributed

__all__ = ["independent", "independent_ranks", "several"]

_INDEPENDENT: ContextVar[bool] = ContextVar("independent_ranks", default=False)


@contextmanager
def independent_ranks() -> Iterator[None]:
    """Let every rank of a distributed job draw for itself: for parallel chains, one on each rank.

    Under `torch.distributed` the ranks train one model. So seeds and weights that are drawn are those of rank
    0, and the first step of an optimizer compares weights and seeds over the ranks. Inside of this context
    every rank draws from its own generator, and an optimizer that is built here stays independent of other
    ranks afterwards, copies of it included. Give the ranks different seeds before:
    `torch.manual_seed(rank)`.

    Nothing in it waits for other ranks. So an optimizer that only some ranks have belongs here too.

    Yields:
        Nothing.

    Examples:
        >>> rank = 3  # torch.distributed.get_rank()
        >>> _ = torch.manual_seed(rank)
        >>> model = nn.Linear(4, 4)
        >>> with cl.independent_ranks():
        ...     groups = cl.constrain(model, {"weight": cl.Orthogonal()}, init="draw")
        ...     optimizer = cl.CoLud(groups, 0.1, friction=1.0, temperature=1e-3)
    """
    before = _INDEPENDENT.set(True)
    try:
        yield
    finally:
        _INDEPENDENT.reset(before)


def independent() -> bool:
    """Whether this is inside of `independent_ranks`."""
    return _INDEPENDENT.get()


def several() -> bool:
    """Whether this process is one of several ranks."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
